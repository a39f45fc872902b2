/* SPDX-License-Identifier: Apache-2.0
 *
 * What the backends of torch.distributed and of torchcomms share: torch's tensors and reductions in the words of collet.
 *
 *    tensors of a call ──▶ Buffers: contiguous memory that collet reads and writes ──▶ copied back when the call is done
 *
 * collet reads and writes contiguous memory. Other tensors, and lists of tensors, travel through a flat one. A list whose tensors
 * lie one behind another, as those of chunk() do, is flat already.
 */
#ifndef COLLET_TORCH_SHARED_HPP
#define COLLET_TORCH_SHARED_HPP

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <collet.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace collet_torch {

using Tensors = std::vector<at::Tensor>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Milliseconds = std::chrono::milliseconds;

/* ---------------------------------------------------------------------------------------------------------- translation */

/* Names in the library's texts, which are those of C, and what a program has instead. */
using Words = std::vector<std::pair<std::string, std::string>>;

inline std::string in_words(std::string text, const Words &words) {
    for (const auto &word : words)
        for (size_t at = 0; (at = text.find(word.first, at)) != std::string::npos; at += word.second.size())
            text.replace(at, word.first.size(), word.second);
    return text;
}

inline void check(collet_result result, const Words &words = {}) {
    TORCH_CHECK(result >= 0, "collet: ", result == COLLET_ERR_TIMEOUT ? "a timeout has passed: " : "",
                in_words(collet_last_error(nullptr), words));
}

inline int whole_ms(Milliseconds time) { return static_cast<int>(std::min<int64_t>(time.count(), INT_MAX)); }

/* Types that only newer releases of torch have go by their names. */
inline bool find_newer_type(const char *name, collet_type *type) {
    static const std::map<std::string, collet_type> types{{"UInt16", COLLET_UINT16},
                                                          {"UInt32", COLLET_UINT32},
                                                          {"UInt64", COLLET_UINT64},
                                                          {"Float8_e4m3fn", COLLET_FLOAT8_E4M3},
                                                          {"Float8_e5m2", COLLET_FLOAT8_E5M2}};
    const auto found = types.find(name);
    if (found != types.end())
        *type = found->second;
    return found != types.end();
}

inline bool find_type(const at::Tensor &tensor, collet_type *type) {
    const auto found = [type](collet_type value) {
        *type = value;
        return true;
    };
    switch (tensor.scalar_type()) {
    case at::kFloat: return found(COLLET_FLOAT32);
    case at::kDouble: return found(COLLET_FLOAT64);
    case at::kHalf: return found(COLLET_FLOAT16);
    case at::kBFloat16: return found(COLLET_BFLOAT16);
    case at::kChar: return found(COLLET_INT8);
    case at::kShort: return found(COLLET_INT16);
    case at::kInt: return found(COLLET_INT32);
    case at::kLong: return found(COLLET_INT64);
    case at::kByte:
    case at::kBool: return found(COLLET_UINT8);
    default: return find_newer_type(c10::toString(tensor.scalar_type()), type);
    }
}

inline collet_type type_of(const at::Tensor &tensor) {
    collet_type type;
    TORCH_CHECK(find_type(tensor, &type), "collet does not reduce tensors of type ", tensor.scalar_type());
    return type;
}

/* Of a truth value, a sum is `or` and a product is `and`. ReduceOp: of either library; their enumerators have the same names. */
template <typename ReduceOp> collet_op op_of(const ReduceOp &op, const at::Tensor &tensor) {
    using Type = typename ReduceOp::RedOpType;
    const bool truth = tensor.scalar_type() == at::kBool;
    switch (static_cast<Type>(op)) {
    case Type::SUM: return truth ? COLLET_MAX : COLLET_SUM;
    case Type::PRODUCT: return truth ? COLLET_MIN : COLLET_PROD;
    case Type::MIN: return COLLET_MIN;
    case Type::MAX: return COLLET_MAX;
    case Type::BAND: return COLLET_BAND;
    case Type::BOR: return COLLET_BOR;
    case Type::BXOR: return COLLET_BXOR;
    case Type::AVG: TORCH_CHECK(!truth, "collet has no average of truth values"); return COLLET_AVG;
    default: break;
    }
    TORCH_CHECK(false, "collet does not know this reduction");
}

inline void check_tensor(const at::Tensor &tensor) {
    TORCH_CHECK(tensor.layout() == at::kStrided, "collet moves dense tensors: make a sparse one dense first");
    TORCH_CHECK(tensor.is_cpu() || tensor.is_cuda(),
                "collet moves tensors on the CPU and on CUDA GPUs; this one is on ", tensor.device());
}

inline size_t count_of(const at::Tensor &tensor) { return static_cast<size_t>(tensor.numel()); }
inline size_t bytes_of(const at::Tensor &tensor) { return static_cast<size_t>(tensor.nbytes()); }

/* What a call that only moves a tensor is told: its elements, or its bytes where collet does not have their type. */
struct Extent {
    explicit Extent(const at::Tensor &tensor) : count(count_of(tensor)), item_bytes(tensor.element_size()) {
        if (!find_type(tensor, &type)) {
            count = bytes_of(tensor);
            item_bytes = 1;
            type = COLLET_UINT8;
        }
    }
    size_t count, item_bytes;
    collet_type type;
};

/* -------------------------------------------------------------------------------------------------------------- buffers */

inline void check_list(const Tensors &list, int expected) {
    TORCH_CHECK(list.size() == static_cast<size_t>(expected), "a list of one tensor per rank (", expected,
                ") is expected, not of ", list.size());
    for (const at::Tensor &tensor : list) {
        check_tensor(tensor);
        TORCH_CHECK(tensor.scalar_type() == list[0].scalar_type(), "the tensors of a list differ in type");
    }
}

inline void check_blocks(const Tensors &list, int expected, const at::Tensor &like) {
    check_list(list, expected);
    for (const at::Tensor &tensor : list)
        TORCH_CHECK(tensor.numel() == like.numel() && tensor.scalar_type() == like.scalar_type(),
                    "all tensors of a list must have the size and the type of the rank's tensor");
}

/* Blocks of a list may differ in size. */
inline void check_own(const Tensors &list, const at::Tensor &tensor, int rank, int size) {
    check_list(list, size);
    const at::Tensor &own = list[static_cast<size_t>(rank)];
    TORCH_CHECK(own.numel() == tensor.numel() && own.scalar_type() == tensor.scalar_type(),
                "the rank's tensor must have the size and the type of tensor ", rank, " of the list");
}

inline void check_whole(const at::Tensor &whole, const at::Tensor &block, int size) {
    TORCH_CHECK(whole.numel() == block.numel() * size && whole.scalar_type() == block.scalar_type(), "a tensor of ",
                block.numel(), " elements per rank and one of ", whole.numel(), " for all ", size,
                " ranks do not fit together, or differ in type");
}

inline int64_t elements_of(const Tensors &list) {
    int64_t sum = 0;
    for (const at::Tensor &tensor : list)
        sum += tensor.numel();
    return sum;
}

inline bool lie_in_a_row(const Tensors &list) {
    int64_t next = list[0].storage_offset();
    for (const at::Tensor &tensor : list) {
        if (!tensor.is_contiguous() || !tensor.is_alias_of(list[0]) || tensor.storage_offset() != next)
            return false;
        next += tensor.numel();
    }
    return true;
}

/* The tensors that must live as long as a call does, and the copies that follow it. */
struct Buffers {
    /* The contiguous tensor that collet reads. */
    at::Tensor reads(const at::Tensor &tensor) {
        check_tensor(tensor);
        TORCH_CHECK(kept.empty() || tensor.device() == device, "a call has tensors on ", device, " and on ",
                    tensor.device());
        device = tensor.device();
        kept.push_back(tensor.contiguous());
        return kept.back();
    }

    /* The contiguous tensor that collet writes, and perhaps reads. */
    at::Tensor writes(const at::Tensor &tensor) {
        at::Tensor flat = reads(tensor);
        outputs.push_back(tensor);
        if (!flat.is_same(tensor))
            copies.emplace_back(tensor, flat);
        return flat;
    }

    /* The tensors of a checked list, one behind another. */
    at::Tensor reads_row(const Tensors &list) {
        if (is_flat(list))
            return reads(list[0].as_strided({elements_of(list)}, {1}));
        Tensors parts;
        for (const at::Tensor &tensor : list)
            parts.push_back(tensor.reshape({tensor.numel()}));
        return reads(at::cat(parts));
    }

    at::Tensor writes_row(const Tensors &list) {
        outputs.insert(outputs.end(), list.begin(), list.end());
        if (is_flat(list))
            return reads(list[0].as_strided({elements_of(list)}, {1}));
        const at::Tensor row = reads(at::empty({elements_of(list)}, list[0].options()));
        int64_t at = 0;
        for (const at::Tensor &tensor : list) {
            copies.emplace_back(tensor, row.narrow(0, at, tensor.numel()).view(tensor.sizes()));
            at += tensor.numel();
        }
        return row;
    }

    /* In place, collet works at some offsets only: a list that shares memory with another tensor of the call is copied. */
    bool is_flat(const Tensors &list) const {
        return lie_in_a_row(list) && std::none_of(kept.begin(), kept.end(), [&](const at::Tensor &tensor) {
                   return tensor.is_alias_of(list[0]);
               });
    }

    void copy_back() {
        for (auto &copy : copies)
            copy.first.copy_(copy.second);
    }

    c10::Device device = at::kCPU;
    Tensors outputs, kept;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies; /* to, from */
};

/* Counts of blocks are those of Extent. Splits count rows of the first dimension; none means equal ones. */
inline std::vector<size_t> split_counts(const char *name, const at::Tensor &tensor, const std::vector<int64_t> &splits,
                                        int size) {
    const size_t n = static_cast<size_t>(size), count = Extent(tensor).count;
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
    if (splits.empty()) {
        TORCH_CHECK(rows % size == 0, rows, " rows do not divide equally among ", n, " ranks: give ", name);
        return std::vector<size_t>(n, count / n);
    }
    TORCH_CHECK(splits.size() == n, name, " is [", c10::Join(", ", splits), "]: one split per rank is expected, ", n);
    std::vector<size_t> counts;
    int64_t sum = 0;
    for (int64_t split : splits) {
        TORCH_CHECK(split >= 0, name, " is [", c10::Join(", ", splits), "]: 0 or more rows per rank are expected");
        counts.push_back(rows > 0 ? static_cast<size_t>(split) * (count / static_cast<size_t>(rows)) : 0);
        sum += split;
    }
    TORCH_CHECK(sum == rows, name, " is [", c10::Join(", ", splits), "], which is ", sum,
                " rows, but the first dimension of the tensor is ", rows);
    return counts;
}

inline std::vector<size_t> list_counts(const Tensors &list) {
    std::vector<size_t> counts;
    for (const at::Tensor &tensor : list)
        counts.push_back(Extent(tensor).count);
    return counts;
}

/* ------------------------------------------------------------------------------------------------------------------ calls */

/* A group with a bad call in it runs nothing. */
template <typename Calls> collet_result together(Calls calls) {
    check(collet_group_start());
    try {
        calls();
    } catch (...) {
        collet_barrier(nullptr, nullptr);
        collet_group_end();
        throw;
    }
    return collet_group_end();
}

/* ---- blocks of different sizes: counts of Extent, one per rank. A GPU does not get counts of blocks yet, so there each block is
 * a call of its own ---- */

/* visit: of each block that is not empty, with its rank, its offset and its count. */
template <typename Visit> void for_each_block(const Extent &extent, const std::vector<size_t> &counts, Visit visit) {
    for (size_t r = 0, offset = 0; r < counts.size(); offset += counts[r++] * extent.item_bytes)
        if (counts[r] > 0)
            visit(static_cast<int>(r), offset, counts[r]);
}

inline uint8_t *at_byte(const at::Tensor &tensor, size_t offset) {
    return static_cast<uint8_t *>(tensor.data_ptr()) + offset;
}

/* Messages: one to and one from each rank, this one too. */
inline collet_result exchange_messages(const at::Tensor &in, const std::vector<size_t> &sent, const at::Tensor &out,
                                       const std::vector<size_t> &received, collet_comm *comm, void *stream) {
    const Extent extent(in);
    return together([&] {
        for_each_block(extent, sent, [&](int rank, size_t offset, size_t count) {
            collet_send(at_byte(in, offset), count, extent.type, rank, comm, stream);
        });
        for_each_block(extent, received, [&](int rank, size_t offset, size_t count) {
            collet_recv(at_byte(out, offset), count, extent.type, rank, comm, stream);
        });
    });
}

inline collet_result exchange(const at::Tensor &in, const std::vector<size_t> &sent, const at::Tensor &out,
                              const std::vector<size_t> &received, collet_comm *comm, void *stream) {
    TORCH_CHECK(in.scalar_type() == out.scalar_type(), "the input is of type ", in.scalar_type(),
                ", the output of type ", out.scalar_type(), ": one type is expected");
    if (!in.is_cpu())
        return exchange_messages(in, sent, out, received, comm, stream);
    return collet_alltoallv(in.data_ptr(), sent.data(), nullptr, out.data_ptr(), received.data(), nullptr,
                            Extent(in).type, comm, stream);
}

inline collet_result gather_blocks(const at::Tensor &in, const at::Tensor &out, const std::vector<size_t> &counts,
                                   collet_comm *comm, void *stream) {
    const Extent extent(in);
    if (in.is_cpu())
        return collet_allgatherv(in.data_ptr(), extent.count, out.data_ptr(), counts.data(), nullptr, extent.type, comm,
                                 stream);
    return together([&] {
        for_each_block(extent, counts, [&](int rank, size_t offset, size_t count) {
            collet_broadcast(in.data_ptr(), at_byte(out, offset), count, extent.type, rank, comm, stream);
        });
    });
}

inline collet_result scatter_blocks(const at::Tensor &in, const at::Tensor &out, const std::vector<size_t> &counts,
                                    collet_op op, collet_comm *comm, void *stream) {
    if (in.is_cpu())
        return collet_reducescatterv(in.data_ptr(), out.data_ptr(), counts.data(), type_of(in), op, comm, stream);
    return together([&] {
        for_each_block(Extent(in), counts, [&](int rank, size_t offset, size_t count) {
            collet_reduce(at_byte(in, offset), out.data_ptr(), count, type_of(in), op, rank, comm, stream);
        });
    });
}

inline bool are_equal(const std::vector<size_t> &counts) {
    return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<size_t>()) == counts.end();
}

/* --------------------------------------------------------------------------------------------------------- communicators */

/* The ranks meet by an id, which they pass on through torch's store. */
inline collet_comm *meet(const StorePtr &store, const std::string &key, int rank, int size,
                         const collet_config &config) {
    collet_unique_id id;
    if (rank == 0) {
        check(collet_get_unique_id(&id));
        store->set(key, std::vector<uint8_t>(id.bytes, id.bytes + sizeof id.bytes));
    } else {
        const std::vector<uint8_t> bytes = store->get(key);
        TORCH_CHECK(bytes.size() == sizeof id.bytes, "the store holds something else under the key \"", key, "\"");
        std::copy(bytes.begin(), bytes.end(), id.bytes);
    }
    collet_comm *comm;
    check(collet_comm_init_rank_config(&comm, size, id, rank, &config));
    return comm;
}

/* Owns a communicator. Any thread may abort it. Later calls then fail with the reason. */
class Owner {
  public:
    explicit Owner(collet_comm *comm) : comm_(comm) {}
    ~Owner() { destroy(); }

    collet_comm *comm() {
        std::lock_guard<std::mutex> lock(mutex_);
        TORCH_CHECK(comm_ != nullptr, "collet: this group has ended: ", reason_);
        return comm_;
    }

    /* After an abort, and after a failure of a call on any rank. Does not wait. */
    bool has_failed() const {
        std::lock_guard<std::mutex> lock(mutex_);
        collet_result failure = COLLET_SUCCESS;
        return is_aborted_ || (comm_ != nullptr && (collet_comm_get_async_error(comm_, &failure) < 0 || failure < 0));
    }

    void abort(const std::string &reason) { check(collet_comm_abort(take(reason, true))); }
    void destroy() { collet_comm_destroy(take("it was destroyed", false)); }

  private:
    collet_comm *take(const std::string &reason, bool aborts) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (comm_ != nullptr) {
            reason_ = reason;
            is_aborted_ = aborts;
        }
        return std::exchange(comm_, nullptr);
    }

    mutable std::mutex mutex_;
    collet_comm *comm_;
    bool is_aborted_ = false;
    std::string reason_;
};

/* --------------------------------------------------------------------------------------------------------------- helpers */

/* A thread for what nobody waits for, one job after the other. It starts with the first job. A job may end its own helper, and
 * free it: the thread then lives a little longer, so it shares the queue with the helper. */
class Helper {
  public:
    void add(std::function<void()> job) {
        std::lock_guard<std::mutex> lock(queue_->mutex);
        if (!thread_.joinable())
            thread_ = std::thread([queue = queue_] { queue->work(); });
        queue_->jobs.push_back(std::move(job));
        queue_->wake.notify_one();
    }

    /* Returns when all jobs are done, but for the job that calls this. */
    void end() {
        queue_->end();
        if (thread_.get_id() == std::this_thread::get_id()) {
            thread_.detach();
            queue_->work();
        } else if (thread_.joinable()) {
            thread_.join();
        }
    }

  private:
    struct Queue {
        void end() {
            std::lock_guard<std::mutex> lock(mutex);
            ending = true;
            wake.notify_one();
        }

        void work() {
            std::unique_lock<std::mutex> lock(mutex);
            for (;;) {
                wake.wait(lock, [this] { return ending || !jobs.empty(); });
                if (jobs.empty())
                    return;
                std::function<void()> job = std::move(jobs.front());
                jobs.pop_front();
                lock.unlock();
                job();
                job = nullptr;
                lock.lock();
            }
        }

        std::mutex mutex;
        std::condition_variable wake;
        std::deque<std::function<void()>> jobs;
        bool ending = false;
    };

    const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
    std::thread thread_;
};

} // namespace collet_torch

#endif
