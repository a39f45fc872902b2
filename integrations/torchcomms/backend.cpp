/* SPDX-License-Identifier: Apache-2.0
 *
 * torchcomms on collet: a library that torchcomms opens at run time (its backend ABI 1.3). Tensors on the CPU.
 *
 *    TORCHCOMMS_BACKEND_LIB_PATH_COLLET=…/libcollet_torchcomms.so
 *    torchcomms.new_comm("collet", torch.device("cpu"), "main")
 *
 *    torchcomms                     this file                                collet
 *    create_dynamic_loader_collet() new_comm, destroy_comm, the version
 *    all_reduce(t, SUM, false)      Comm::run(): at once ──────────────────▶ collet_allreduce(…, NULL)
 *    all_reduce(t, SUM, true)       Comm::run(): a Work, issued on a Lane ─▶ collet_allreduce(…, stream)
 *    work.wait()                    Operation::wait() ─────────────────────▶ collet_wait(): the caller carries the call
 *
 * torchcomms reads the status of a Work without asking this library. So each lane has a thread, which waits for its operations in
 * order and settles them. The waiter settles its own operation, if it is faster. All collectives go into one lane. Each message, and
 * each batch of them, has a lane of its own: it does not wait for other messages.
 */
#include <comms/torchcomms/TorchCommBackend.hpp>
#include <comms/torchcomms/utils/StoreManager.hpp>
#include <comms/torchcomms/utils/Utils.hpp>

#include "../torch/collet_torch/shared.hpp"

namespace {

using namespace collet_torch;
using namespace torch::comms;
using WorkPtr = c10::intrusive_ptr<TorchWork>;
using OwnerPtr = std::shared_ptr<Owner>;
using Clock = std::chrono::steady_clock;

/* ------------------------------------------------------------------------------------------------------------ operations */

/* A call that was issued on a stream. */
class Operation : public TorchWork {
  public:
    Operation(OwnerPtr owner, Buffers buffers, Milliseconds timeout)
        : owner_(std::move(owner)), buffers_(std::move(buffers)), timeout_(timeout), begin_(Clock::now()) {
        setStatus(WorkStatus::INPROGRESS);
    }

    void issued_on(collet_stream *stream) { check(collet_stream_record(stream, &work_)); }

    void wait() override {
        runWaitPreHooks();
        const bool succeeded = settle();
        runWaitPostHooks();
        if (!succeeded)
            std::rethrow_exception(failure_);
    }
    void waitBlocking() override { wait(); }

    Milliseconds getTimeout() const override { return timeout_ == kNoTimeout ? TorchWork::getTimeout() : timeout_; }

    /* Waits, in any thread. The first that finds the call done says so to torchcomms. False: the call has failed. */
    bool settle() {
        const collet_result result = await();
        std::lock_guard<std::mutex> lock(settling_);
        if (status() != WorkStatus::INPROGRESS)
            return failure_ == nullptr;
        try {
            check(result);
            buffers_.copy_back();
        } catch (...) {
            failure_ = std::current_exception();
        }
        setStatus(failure_ == nullptr ? WorkStatus::COMPLETED : is_late_ ? WorkStatus::TIMEDOUT : WorkStatus::ERROR);
        return failure_ == nullptr;
    }

  private:
    collet_result await() {
        if (status() != WorkStatus::INPROGRESS)
            return COLLET_SUCCESS;
        if (timeout_ == kNoTimeout)
            return collet_wait(work_);
        const auto left = std::chrono::duration_cast<Milliseconds>(begin_ + timeout_ - Clock::now());
        const collet_result result = collet_wait_for(work_, whole_ms(std::max(left, Milliseconds(0))));
        if (result != COLLET_IN_PROGRESS)
            return result;
        is_late_ = true;
        owner_->abort(c10::str("an operation was not done after its timeout of ", timeout_.count(), " ms"));
        return collet_wait(work_);
    }

    const OwnerPtr owner_;
    Buffers buffers_;
    const Milliseconds timeout_;
    const Clock::time_point begin_;
    collet_work work_{};
    std::mutex settling_;
    std::atomic<bool> is_late_{false};
    std::exception_ptr failure_;
};

/* A queue of calls, and the thread that says when they are done. */
struct Lane {
    Lane() { check(collet_stream_create(&stream)); }
    ~Lane() {
        settler.end();
        collet_stream_destroy(stream);
    }
    collet_stream *stream = nullptr;
    Helper settler;
};

/* Lanes of messages. */
class Lanes {
  public:
    Lane *take() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_.empty()) {
            all_.push_back(std::make_unique<Lane>());
            return all_.back().get();
        }
        Lane *lane = free_.back();
        free_.pop_back();
        return lane;
    }
    /* A stream keeps its first failure: one that has failed is not used again. */
    void give_back(Lane *lane) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (collet_stream_query(lane->stream) == COLLET_SUCCESS)
            free_.push_back(lane);
    }

  private:
    std::mutex mutex_;
    std::vector<Lane *> free_;
    std::vector<std::unique_ptr<Lane>> all_; /* the last member: its threads end first */
};

/* -------------------------------------------------------------------------------------------------------- communicators */

class Comm : public TorchCommBackend {
    using P2POp = BatchSendRecv::P2POp;

  public:
    Comm() = default;

    ~Comm() override {
        if (owner_ != nullptr)
            owner_->abort("its handle was destroyed");
    }

    /* ---- life ---- */

    void init(at::Device device, const std::string &name, const CommOptions &options) override {
        TORCH_CHECK(owner_ == nullptr, "collet: communicator ", name_, " is initialized already");
        std::tie(rank_, size_) = query_ranksize();
        const StorePtr store = options.store ? options.store : createPrefixStore(name, options.timeout);
        const collet_config config = prepare(device, name, options);
        const std::string key = "collet " + name;
        const auto forget = [&] {
            if (rank_ == 0)
                store->deleteKey(key);
        };
        try {
            start(meet(store, key, rank_, size_, config));
        } catch (...) {
            forget();
            throw;
        }
        forget();
        /* A later communicator may have the same name: no rank looks for its key before this one is gone. */
        check(collet_barrier(owner().comm(), nullptr));
    }

    void finalize() override {
        owner();
        collectives_.reset();
        messages_.reset();
        owner_->destroy();
    }

    /* All ranks call this, each with the list of its own part, in the order of the new ranks. An empty list: in no part. */
    std::shared_ptr<TorchCommBackend> split(const std::vector<int> &ranks, const std::string &name,
                                            const CommOptions &options) override {
        const auto at = std::find(ranks.begin(), ranks.end(), rank_);
        TORCH_CHECK(ranks.empty() || at != ranks.end(), "rank ", rank_, " is not in its own part of the split");
        auto part = std::make_shared<Comm>();
        const collet_config config = part->prepare(device_, name, options);
        const int color = ranks.empty() ? COLLET_SPLIT_NOCOLOR : *std::min_element(ranks.begin(), ranks.end());
        collet_comm *comm;
        check(collet_comm_split(owner().comm(), color, static_cast<int>(at - ranks.begin()), &comm, &config));
        if (ranks.empty())
            return nullptr;
        part->start(comm);
        return part;
    }

    bool isAbortSupported() const override { return true; }
    bool isAborted() const override { return owner_ != nullptr && owner_->has_failed(); }
    void abort() override { owner().abort("it was aborted"); }
    void setTimeout(Milliseconds timeout) override { call_timeout_ = timeout; }

    /* ---- questions ---- */

    int getRank() const override { return rank_; }
    int getSize() const override { return size_; }
    bool isInitialized() const override { return owner_ != nullptr && !isAborted(); }
    std::string_view getBackendName() const override { return "collet"; }
    std::string_view getBackendVersion() const override { return version_; }
    std::string_view getCommName() const override { return name_; }
    const CommOptions &getOptions() const override { return options_; }
    const at::Device &getDevice() const override { return device_; }

    /* ---- messages: they match in the order of issue ---- */

    WorkPtr send(const at::Tensor &tensor, int dst, bool async_op, const SendOptions &options) override {
        check_tag(options.tag);
        return batch_op_issue({P2POp(P2POp::OpType::SEND, tensor, dst)}, async_op, batch_options(options.timeout));
    }

    WorkPtr recv(at::Tensor &tensor, int src, bool async_op, const RecvOptions &options) override {
        check_tag(options.tag);
        return batch_op_issue({P2POp(P2POp::OpType::RECV, tensor, src)}, async_op, batch_options(options.timeout));
    }

    WorkPtr batch_op_issue(const std::vector<P2POp> &ops, bool async_op, const BatchP2POptions &options) override {
        Buffers buffers;
        Tensors flats;
        for (const P2POp &op : ops)
            flats.push_back(op.type == P2POp::OpType::SEND ? buffers.reads(op.tensor) : buffers.writes(op.tensor));
        return run(messages_.get(), buffers, async_op, options.timeout, [&](collet_comm *comm, void *stream) {
            return together([&] {
                for (size_t k = 0; k < ops.size(); k++)
                    message(ops[k], flats[k], comm, stream);
            });
        });
    }

    /* ---- collectives of one tensor ---- */

    WorkPtr all_reduce(at::Tensor &tensor, const ReduceOp &op, bool async_op,
                       const AllReduceOptions &options) override {
        Buffers buffers;
        const at::Tensor flat = buffers.writes(tensor);
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return collet_allreduce(flat.data_ptr(), flat.data_ptr(), count_of(flat), type_of(flat), op_of(op, flat),
                                    comm, stream);
        });
    }

    WorkPtr broadcast(at::Tensor &tensor, int root, bool async_op, const BroadcastOptions &options) override {
        Buffers buffers;
        const at::Tensor flat = buffers.writes(tensor);
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return collet_broadcast(flat.data_ptr(), flat.data_ptr(), Extent(flat).count, Extent(flat).type, root, comm,
                                    stream);
        });
    }

    WorkPtr reduce(const at::Tensor &tensor, int root, const ReduceOp &op, bool async_op,
                   const ReduceOptions &options) override {
        Buffers buffers;
        const at::Tensor flat = rank_ == root ? buffers.writes(tensor) : buffers.reads(tensor);
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return collet_reduce(flat.data_ptr(), flat.data_ptr(), count_of(flat), type_of(flat), op_of(op, flat), root,
                                 comm, stream);
        });
    }

    WorkPtr barrier(bool async_op, const BarrierOptions &options) override {
        Buffers buffers;
        return collective(buffers, async_op, options,
                          [&](collet_comm *comm, void *stream) { return collet_barrier(comm, stream); });
    }

    /* ---- blocks ---- */

    WorkPtr all_gather(const Tensors &list, const at::Tensor &tensor, bool async_op,
                       const AllGatherOptions &options) override {
        check_blocks(list, size_, tensor);
        return all_gather_v(list, tensor, async_op, options);
    }

    WorkPtr all_gather_v(const Tensors &list, const at::Tensor &tensor, bool async_op,
                         const AllGatherOptions &options) override {
        check_own(list, tensor, rank_, size_);
        Buffers buffers;
        const at::Tensor in = buffers.reads(tensor), out = buffers.writes_row(list);
        const std::vector<size_t> counts = list_counts(list);
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return gather_blocks(in, out, counts, comm, stream);
        });
    }

    WorkPtr all_gather_single(at::Tensor &output, const at::Tensor &input, bool async_op,
                              const AllGatherSingleOptions &options) override {
        check_whole(output, input, size_);
        Buffers buffers;
        const at::Tensor in = buffers.reads(input), out = buffers.writes(output);
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return collet_allgather(in.data_ptr(), out.data_ptr(), Extent(in).count, Extent(in).type, comm, stream);
        });
    }

    WorkPtr reduce_scatter(at::Tensor &output, const Tensors &list, const ReduceOp &op, bool async_op,
                           const ReduceScatterOptions &options) override {
        check_blocks(list, size_, output);
        return reduce_scatter_v(output, list, op, async_op, options);
    }

    WorkPtr reduce_scatter_v(at::Tensor &output, const Tensors &list, const ReduceOp &op, bool async_op,
                             const ReduceScatterOptions &options) override {
        check_own(list, output, rank_, size_);
        Buffers buffers;
        const at::Tensor out = buffers.writes(output), in = buffers.reads_row(list);
        const std::vector<size_t> counts = list_counts(list);
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return scatter_blocks(in, out, counts, op_of(op, in), comm, stream);
        });
    }

    WorkPtr reduce_scatter_single(at::Tensor &output, const at::Tensor &input, const ReduceOp &op, bool async_op,
                                  const ReduceScatterSingleOptions &options) override {
        check_whole(input, output, size_);
        Buffers buffers;
        const at::Tensor in = buffers.reads(input), out = buffers.writes(output);
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return collet_reducescatter(in.data_ptr(), out.data_ptr(), count_of(out), type_of(in), op_of(op, in), comm,
                                        stream);
        });
    }

    WorkPtr scatter(at::Tensor &output, const Tensors &list, int root, bool async_op,
                    const ScatterOptions &options) override {
        Buffers buffers;
        const at::Tensor out = buffers.writes(output);
        if (rank_ == root)
            check_blocks(list, size_, output);
        const void *in = rank_ == root ? buffers.reads_row(list).data_ptr() : nullptr;
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return collet_scatter(in, out.data_ptr(), Extent(out).count, Extent(out).type, root, comm, stream);
        });
    }

    WorkPtr gather(const Tensors &list, const at::Tensor &input, int root, bool async_op,
                   const GatherOptions &options) override {
        Buffers buffers;
        const at::Tensor in = buffers.reads(input);
        if (rank_ == root)
            check_blocks(list, size_, input);
        void *out = rank_ == root ? buffers.writes_row(list).data_ptr() : nullptr;
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return collet_gather(in.data_ptr(), out, Extent(in).count, Extent(in).type, root, comm, stream);
        });
    }

    /* ---- all to all ---- */

    WorkPtr all_to_all_single(at::Tensor &output, const at::Tensor &input, bool async_op,
                              const AllToAllSingleOptions &options) override {
        Buffers buffers;
        const at::Tensor in = buffers.reads(input), out = buffers.writes(output);
        return exchange_all(buffers, in, split_counts("splits", in, {}, size_), out,
                            split_counts("splits", out, {}, size_), async_op, options);
    }

    /* Rows behind the last split are left alone. */
    WorkPtr all_to_all_v_single(at::Tensor &output, const at::Tensor &input, const std::vector<uint64_t> &output_splits,
                                const std::vector<uint64_t> &input_splits, bool async_op,
                                const AllToAllvSingleOptions &options) override {
        const std::vector<int64_t> sent(input_splits.begin(), input_splits.end());
        const std::vector<int64_t> received(output_splits.begin(), output_splits.end());
        Buffers buffers;
        const at::Tensor in = buffers.reads(head(input, sent)), out = buffers.writes(head(output, received));
        return exchange_all(buffers, in, split_counts("input_split_sizes", in, sent, size_), out,
                            split_counts("output_split_sizes", out, received, size_), async_op, options);
    }

    WorkPtr all_to_all(const Tensors &outputs, const Tensors &inputs, bool async_op,
                       const AllToAllOptions &options) override {
        check_list(outputs, size_);
        check_list(inputs, size_);
        Buffers buffers;
        const at::Tensor in = buffers.reads_row(inputs), out = buffers.writes_row(outputs);
        return exchange_all(buffers, in, list_counts(inputs), out, list_counts(outputs), async_op, options);
    }

  private:
    collet_config prepare(at::Device device, const std::string &name, const CommOptions &options) {
        TORCH_CHECK(device.is_cpu(), "collet serves torchcomms on the CPU, not on ", device);
        TORCH_CHECK(!options.enable_reconfigure, "collet has no reconfigure()");
        int version = 0;
        check(collet_get_version(&version));
        version_ = c10::str(version / 10000, ".", version / 100 % 100, ".", version % 100);
        name_ = name;
        options_ = options;
        options_.store.reset();
        collet_config config{};
        config.size = sizeof config;
        config.device = COLLET_DEVICE_HOST;
        config.timeout_ms = whole_ms(options.timeout);
        config.name = name_.c_str();
        return config;
    }

    void start(collet_comm *comm) {
        owner_ = std::make_shared<Owner>(comm);
        check(collet_comm_rank(comm, &rank_));
        check(collet_comm_count(comm, &size_));
        collectives_ = std::make_unique<Lane>();
        messages_ = std::make_unique<Lanes>();
    }

    Owner &owner() {
        TORCH_CHECK(owner_ != nullptr, "collet: the communicator is not initialized");
        return *owner_;
    }

    /* Where the caller waits anyway, the call runs at once. home: of a message, where its lane comes from. */
    template <typename Issue>
    WorkPtr run(Lanes *home, Buffers &buffers, bool async_op, Milliseconds timeout, Issue issue) {
        collet_comm *comm = owner().comm();
        TORCH_CHECK(buffers.device.is_cpu(), "collet serves torchcomms on the CPU, not on ", buffers.device);
        if (timeout == kNoTimeout)
            timeout = call_timeout_;
        if (async_op || timeout != kNoTimeout)
            return run_on(home, comm, buffers, async_op, timeout, issue);
        heed(issue(comm, nullptr));
        buffers.copy_back();
        return c10::make_intrusive<TorchWorkCompleted>();
    }

    template <typename Issue>
    WorkPtr run_on(Lanes *home, collet_comm *comm, Buffers &buffers, bool async_op, Milliseconds timeout, Issue issue) {
        const auto give_back = [home](Lane *lane) {
            if (home != nullptr)
                home->give_back(lane);
        };
        std::unique_ptr<Lane, decltype(give_back)> loan(home != nullptr ? home->take() : collectives_.get(), give_back);
        auto operation = c10::make_intrusive<Operation>(owner_, std::move(buffers), timeout);
        const collet_result result = issue(comm, loan->stream);
        if (result < 0)
            loan.reset(); /* before hooks, which may drop the communicator */
        heed(result);
        operation->issued_on(loan->stream);
        Lane *lane = loan.release();
        lane->settler.add([this, give_back, lane, operation] {
            if (operation->settle())
                give_back(lane);
            else
                run_hooks();
        });
        if (!async_op)
            operation->wait();
        return operation;
    }

    /* collet's verdict on a call. A mistake of the caller leaves the communicator as it is, and is no matter of hooks. */
    void heed(collet_result result) {
        try {
            check(result);
        } catch (...) {
            if (result != COLLET_ERR_INVALID_ARGUMENT && result != COLLET_ERR_INVALID_USAGE)
                run_hooks();
            throw;
        }
    }

    /* A hook may drop the communicator, and its hooks with it: what runs is a copy. */
    void run_hooks() {
        const auto hooks = abortHooks_;
        for (const auto &entry : hooks) {
            try {
                entry.second();
            } catch (const std::exception &error) {
                LOG(ERROR) << "collet: an abort hook failed: " << error.what();
            } catch (...) {
                LOG(ERROR) << "collet: an abort hook failed";
            }
        }
    }

    template <typename Options, typename Issue>
    WorkPtr collective(Buffers &buffers, bool async_op, const Options &options, Issue issue) {
        return run(nullptr, buffers, async_op, options.timeout, issue);
    }

    template <typename Options>
    WorkPtr exchange_all(Buffers &buffers, const at::Tensor &in, const std::vector<size_t> &sent, const at::Tensor &out,
                         const std::vector<size_t> &received, bool async_op, const Options &options) {
        return collective(buffers, async_op, options, [&](collet_comm *comm, void *stream) {
            return exchange(in, sent, out, received, comm, stream);
        });
    }

    static void message(const P2POp &op, const at::Tensor &flat, collet_comm *comm, void *stream) {
        const Extent extent(flat);
        if (op.type == P2POp::OpType::SEND)
            collet_send(flat.data_ptr(), extent.count, extent.type, op.peer, comm, stream);
        else
            collet_recv(flat.data_ptr(), extent.count, extent.type, op.peer, comm, stream);
    }

    static void check_tag(int tag) {
        TORCH_CHECK(tag == 0, "messages of collet have no tags: they match in the order of issue; this one has tag ",
                    tag);
    }

    static BatchP2POptions batch_options(Milliseconds timeout) {
        BatchP2POptions options;
        options.timeout = timeout;
        return options;
    }

    at::Tensor head(const at::Tensor &tensor, const std::vector<int64_t> &splits) const {
        TORCH_CHECK(splits.size() == static_cast<size_t>(size_), "one split per rank is expected");
        int64_t rows = 0;
        for (int64_t split : splits)
            rows += split;
        return tensor.narrow(0, 0, rows);
    }

    int rank_ = -1, size_ = -1;
    std::string name_, version_;
    CommOptions options_;
    at::Device device_ = at::kCPU;
    Milliseconds call_timeout_ = kNoTimeout;
    OwnerPtr owner_;
    std::unique_ptr<Lane> collectives_;
    std::unique_ptr<Lanes> messages_;
};

} // namespace

extern "C" __attribute__((visibility("default"))) DynamicLoaderInterface create_dynamic_loader_collet() {
    return {
        []() -> TorchCommBackend * { return new Comm(); },
        [](TorchCommBackend *comm) { delete comm; },
        []() { return TORCHCOMM_BACKEND_ABI_VERSION; },
    };
}
