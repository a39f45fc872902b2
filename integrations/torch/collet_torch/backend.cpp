/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.distributed on collet: a backend of c10d for torch 1.13 and 2. Tensors on a GPU have never been tried.
 *
 *    torch.distributed              this file                                collet
 *    all_reduce(t)                  Group::allreduce() ─ a Call, issued ───▶ collet_allreduce(…, stream)
 *    work.wait()                    Operation::wait() ─────────────────────▶ collet_wait(): the caller carries the call
 *    work.get_future()  (DDP)       a Future; the completer waits for operations in order, and completes it
 *
 * All collectives of a group go into one stream of collet, so they keep their order. Each message has a stream of its own:
 * it waits only for earlier messages of the same pair and direction. Where torch says that the caller waits anyway, a
 * collective is done at once, without a stream. A call on a GPU goes into torch's current CUDA stream, on a communicator of
 * that GPU, which is made with the first such call.
 */
#include <torch/extension.h>
#include <torch/version.h>

#include <c10/core/CPUAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <pybind11/chrono.h>

#include "shared.hpp"

#include <cstring>

/* ------------------------------------------------------------------------------------------------- releases of torch
 *
 * What differs from release to release is here and nowhere else. Functions below that only some releases know are not
 * marked `override`. */

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
using GroupBase = c10d::Backend;
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
using GroupBase = c10d::ProcessGroup;
#endif

namespace {

using namespace collet_torch;

/* Newer releases say whether the caller will wait at once. */
template <typename Options> auto waits_at_once(const Options &opts, int) -> decltype(opts.asyncOp) {
    return !opts.asyncOp;
}
template <typename Options> bool waits_at_once(const Options &, long) { return false; }

/* Newer releases tell the cudaStream_t of a stream without CUDA's headers. */
template <typename Stream> auto handle_of(const Stream &stream, int) -> decltype(stream.native_handle()) {
    return stream.native_handle();
}
template <typename Stream> void *handle_of(const Stream &, long) {
    TORCH_CHECK(false, "torch ", TORCH_VERSION, " does not tell its CUDA streams: tensors on a GPU need a newer one");
}

/* Newer releases name the group that is made. */
template <typename Options> auto group_name_of(const Options &opts, int) -> decltype(opts.group_name) {
    return opts.group_name;
}
template <typename Options> std::string group_name_of(const Options &, long) { return ""; }

using Lists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using c10d::OpType;

/* It imports this module, as a rule. */
const std::thread::id main_thread = std::this_thread::get_id();

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

/* ---------------------------------------------------------------------------------------------------------------- calls */

/* What a text of the library names by C's words, torch's programs know by these. */
const std::pair<std::string, std::string> timeout_word{"COLLET_TIMEOUT or config.timeout_ms",
                                                       "timeout= of init_process_group() or new_group()"};
const Words words_of_torch{timeout_word};
const Words words_of_splits{timeout_word,
                            {"collet_alltoallv", "all_to_all_single"},
                            {"sendcounts", "input_split_sizes"},
                            {"recvcounts", "output_split_sizes"}};
const Words words_of_lists{timeout_word,
                           {"collet_alltoallv", "all_to_all"},
                           {"sendcounts", "input_tensor_list"},
                           {"recvcounts", "output_tensor_list"}};

/* What an operation needs beside the function of collet. */
struct Call : Buffers {
    template <typename Options>
    Call(OpType type, const char *title, const Options &opts, const Tensors &tensors = {})
        : type(type), title(title), timeout(opts.timeout), at_once(waits_at_once(opts, 0)),
          is_profiled(at::hasCallbacks()), shown(is_profiled ? tensors : Tensors()) {}

    OpType type;
    const char *title;                    /* in torch's profiler */
    const Words *words = &words_of_torch; /* for the text of its failure */
    Milliseconds timeout;
    bool at_once;
    bool is_profiled;
    Tensors shown;   /* to the profiler */
    at::Tensor note; /* of a received message: its tag */
    int64_t tag = 0; /* the tag that is expected */
};

struct MessageOptions {
    Milliseconds timeout = c10d::kUnsetTimeout;
};

/* collet has no tags. A tag travels ahead of its message, and is compared. Messages between GPUs have none. */
at::Tensor note_of(int tag) { return at::full({1}, tag, at::kLong); }

collet_result receive(const at::Tensor &note, const at::Tensor &flat, int peer, collet_comm *comm, void *stream) {
    return together([&] {
        if (note.defined())
            collet_recv(note.data_ptr(), 1, COLLET_INT64, peer, comm, stream);
        collet_recv(flat.data_ptr(), Extent(flat).count, Extent(flat).type, peer, comm, stream);
    });
}

const at::Tensor &only(const Tensors &tensors) {
    TORCH_CHECK(tensors.size() == 1, "one tensor per rank is expected, not ", tensors.size());
    return tensors[0];
}

/* ----------------------------------------------------------------------------------------------------------------- lines */

class Operation;
using OperationPtr = c10::intrusive_ptr<Operation>;

/* What a group and its operations share: the communicator, its streams, and the operations that are under way. An operation
 * that the program has dropped is among them, so its tensors live on until it is done. */
class Line : public Owner {
  public:
    explicit Line(collet_comm *comm) : Owner(comm) { check(collet_stream_create(&collectives_)); }
    ~Line();

    collet_stream *collectives() { return collectives_; }
    collet_stream *take_stream();
    void give_back(collet_stream *stream, bool has_failed);

    void began(OperationPtr operation);
    void sweep(); /* settles what is done */
    void close(); /* waits for all operations */

    Helper completer; /* completes Futures */
    Helper receiver;  /* waits for messages of any rank */

  private:
    OperationPtr first_under_way();

    std::mutex mutex_;
    collet_stream *collectives_ = nullptr;
    std::vector<collet_stream *> free_streams_;
    std::deque<OperationPtr> under_way_;
};

using LinePtr = std::shared_ptr<Line>;

/* ------------------------------------------------------------------------------------------------------------ operations */

/* A call that was issued. */
class Operation : public c10d::Work {
  public:
    Operation(LinePtr line, int rank, Call call)
        : c10d::Work(rank, call.type, call.is_profiled ? call.title : nullptr, call.shown), line_(std::move(line)),
          call_(std::move(call)) {}

    ~Operation() override {
        if (stream_ != nullptr)
            line_->give_back(stream_, exception_ != nullptr);
    }

    void own(collet_stream *stream) { stream_ = stream; }
    void issued_on(collet_stream *stream) { check(collet_stream_record(stream, &work_)); }

    bool is_settled() { return c10d::Work::isCompleted(); }

    bool isCompleted() override {
        if (event_ != nullptr)
            return event_->query();
        if (is_settled() || is_of_helper())
            return is_settled();
        int done = 0;
        const collet_result result = collet_test(work_, &done);
        if (done != 0)
            settle(result);
        return done != 0;
    }

    bool isSuccess() const override {
        std::lock_guard<std::mutex> lock(mutex_);
        return completed_ && exception_ == nullptr;
    }

    bool wait(Milliseconds timeout = kNoTimeout) override {
        if (!is_settled() && is_of_helper())
            await_helper(timeout);
        else if (!is_settled())
            settle(await(timeout));
        line_->sweep();
        if (exception_ != nullptr)
            std::rethrow_exception(exception_);
        order_current_stream();
        return true;
    }

    void wait_quietly() { /* a failure stays in the operation and in its Future */
        try {
            wait();
        } catch (const pybind11::error_already_set &raised) {
            pybind11::gil_scoped_acquire locked;
            if (raised.matches(PyExc_KeyboardInterrupt))
                PyErr_SetInterrupt(); /* Python raises it again once this call is over */
        } catch (...) {
        }
    }

    void synchronize() override { wait(); }
    void abort() override { line_->abort("an operation was aborted"); }
    Tensors result() override { return call_.outputs; }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    int sourceRank() const override { return source_; }

    void settle(collet_result result);
    void fail(std::exception_ptr failure);
    collet_result receive_from_any(); /* by the helper */

  private:
    bool is_of_helper() const { return work_.stream == nullptr; }
    collet_result await(Milliseconds timeout);
    void await_helper(Milliseconds timeout);
    template <typename Wait> bool await_in_slices(Milliseconds limit, Wait wait);
    void heed_ctrl_c();
    void order_current_stream();
    void finish_message_and_copies();
    void complete_future();

    const LinePtr line_;
    Call call_;
    collet_work work_{};
    collet_stream *stream_ = nullptr;   /* its own, of a message */
    std::unique_ptr<c10::Event> event_; /* on a GPU: the end of the call and of its copies */
    int source_ = -1;
    std::mutex settling_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

void Operation::settle(collet_result result) {
    try {
        check(result, *call_.words);
        fail(nullptr);
    } catch (...) {
        fail(std::current_exception());
    }
}

/* Once, by the thread that first finds that the call is done; without a failure, if there is none. */
void Operation::fail(std::exception_ptr failure) {
    std::lock_guard<std::mutex> lock(settling_);
    if (is_settled())
        return;
    try {
        if (failure == nullptr)
            finish_message_and_copies();
    } catch (...) {
        failure = std::current_exception();
    }
    finish(failure);
    complete_future();
}

void Operation::finish_message_and_copies() {
    const int64_t tag = call_.note.defined() ? call_.note.item<int64_t>() : call_.tag;
    TORCH_CHECK(tag == call_.tag, "collet: a message with tag ", tag, " has come, but tag ", call_.tag,
                " was expected: messages of two ranks match in the order in which they are issued");
    call_.copy_back();
    if (!call_.device.is_cuda())
        return;
    event_ = std::make_unique<c10::Event>(call_.device.type());
    event_->record(current_stream(call_.device));
}

/* What the waiter issues on a GPU from now on runs after the call, also in another stream. */
void Operation::order_current_stream() {
    if (event_ != nullptr)
        event_->block(current_stream(call_.device));
}

void Operation::complete_future() {
    if (future_ == nullptr)
        return;
    if (exception_ != nullptr) {
        future_->setError(exception_);
        return;
    }
    order_current_stream();
    future_->markCompleted(c10::IValue(call_.outputs));
}

/* The patience of a caller is its own affair: the call goes on after it. The timeout of a call ends it, and so its group. */
collet_result Operation::await(Milliseconds patience) {
    const bool is_hard = patience == kNoTimeout;
    const Milliseconds limit = is_hard ? call_.timeout : patience;
    collet_result result = COLLET_IN_PROGRESS;
    const auto wait_for = [&](Milliseconds slice) {
        result = collet_wait_for(work_, whole_ms(slice));
        return result != COLLET_IN_PROGRESS;
    };
    if (await_in_slices(limit == c10d::kUnsetTimeout ? kNoTimeout : limit, wait_for))
        return result;
    const std::string text = c10::str(call_.title, " is not done after its timeout of ", limit.count(), " ms");
    TORCH_CHECK(is_hard, text);
    line_->abort(text);
    return collet_wait(work_);
}

/* wait() waits for a time, and tells whether all is done. False: the limit, if there is one, is over before. */
template <typename Wait> bool Operation::await_in_slices(Milliseconds limit, Wait wait) {
    for (Milliseconds left = limit == kNoTimeout ? Milliseconds::max() : limit, slice; left.count() > 0;
         left -= slice) {
        slice = std::min(left, Milliseconds(500));
        if (wait(slice))
            return true;
        heed_ctrl_c();
    }
    return false;
}

/* Python's handlers of signals run in the main thread. One that raises ends the wait, and the group: other ranks wait for it. */
void Operation::heed_ctrl_c() {
    if (std::this_thread::get_id() != main_thread || !Py_IsInitialized())
        return;
    std::exception_ptr raised;
    {
        pybind11::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() == 0)
            return;
        raised = std::make_exception_ptr(pybind11::error_already_set());
    }
    line_->abort("a signal has ended a wait");
    std::rethrow_exception(raised);
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::getFuture() {
    std::unique_lock<std::mutex> lock(settling_);
    if (future_ != nullptr)
        return future_;
    std::vector<c10::Device> gpus(call_.device.is_cuda() ? 1 : 0, call_.device);
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(gpus));
    if (is_settled()) {
        complete_future();
        return future_;
    }
    lock.unlock();
    if (!is_of_helper()) {
        OperationPtr self = OperationPtr::reclaim_copy(this);
        line_->completer.add([self] { self->wait_quietly(); });
    }
    return future_;
}

void Operation::await_helper(Milliseconds patience) {
    const auto wait_for = [this](Milliseconds slice) {
        std::unique_lock<std::mutex> lock(mutex_);
        return cv_.wait_for(lock, slice, [this] { return completed_; });
    };
    TORCH_CHECK(await_in_slices(patience, wait_for), call_.title, " is not done after its timeout of ",
                patience.count(), " ms");
}

collet_result Operation::receive_from_any() {
    const collet_result result = collet_probe(&source_, line_->comm(), nullptr);
    return result < 0 ? result : receive(call_.note, call_.kept[0], source_, line_->comm(), nullptr);
}

/* Several operations, as one to wait for. */
class Batch : public c10d::Work {
  public:
    void add(OperationPtr operation) { operations_.push_back(std::move(operation)); }

    bool isCompleted() override {
        return std::all_of(operations_.begin(), operations_.end(), [](const auto &one) { return one->isCompleted(); });
    }

    bool isSuccess() const override {
        return std::all_of(operations_.begin(), operations_.end(), [](const auto &one) { return one->isSuccess(); });
    }

    bool wait(Milliseconds timeout = kNoTimeout) override {
        for (const OperationPtr &operation : operations_)
            operation->wait(timeout);
        return true;
    }

    void synchronize() override { wait(); }

  private:
    std::vector<OperationPtr> operations_;
};

/* ------------------------------------------------------------------------------------------------------ lines, continued */

Line::~Line() {
    destroy();
    collet_stream_destroy(collectives_);
    for (collet_stream *stream : free_streams_)
        collet_stream_destroy(stream);
}

collet_stream *Line::take_stream() {
    std::lock_guard<std::mutex> lock(mutex_);
    collet_stream *stream = nullptr;
    if (free_streams_.empty()) {
        check(collet_stream_create(&stream));
    } else {
        stream = free_streams_.back();
        free_streams_.pop_back();
    }
    return stream;
}

/* A stream keeps its first failure. */
void Line::give_back(collet_stream *stream, bool has_failed) {
    if (has_failed) {
        collet_stream_destroy(stream);
        return;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    free_streams_.push_back(stream);
}

void Line::began(OperationPtr operation) {
    std::lock_guard<std::mutex> lock(mutex_);
    under_way_.push_back(std::move(operation));
}

/* Operations settle, and go, outside the lock: both may run code of the program. */
void Line::sweep() {
    for (;;) {
        OperationPtr oldest = first_under_way();
        if (!oldest.defined() || !oldest->isCompleted())
            return;
        std::lock_guard<std::mutex> lock(mutex_);
        if (!under_way_.empty() && under_way_.front() == oldest)
            under_way_.pop_front();
    }
}

OperationPtr Line::first_under_way() {
    std::lock_guard<std::mutex> lock(mutex_);
    return under_way_.empty() ? OperationPtr() : under_way_.front();
}

void Line::close() {
    for (OperationPtr oldest; (oldest = first_under_way()).defined(); sweep())
        oldest->wait_quietly();
    receiver.end();
    completer.end();
}

/* --------------------------------------------------------------------------------------------------------------- groups */

/* How a group's communicators are made. */
struct Plan {
    std::string name;
    Milliseconds timeout; /* longest time without progress */

    collet_config config(int device = COLLET_DEVICE_HOST) const {
        collet_config config{};
        config.size = sizeof config;
        config.device = device;
        config.timeout_ms = whole_ms(timeout);
        config.name = name.c_str();
        return config;
    }
};

/* Some ranks of a communicator make one of their own. torch says nothing of it to the others, so they cannot take part. */
collet_comm *without_others(collet_comm *parent, const std::vector<int> &ranks, const collet_config &config) {
    std::vector<int> others;
    int size = 0, left = 0;
    check(collet_comm_count(parent, &size));
    for (int rank = 0; rank < size; rank++)
        if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
            others.push_back(rank);
    collet_comm *comm;
    check(collet_comm_shrink(parent, others.data(), static_cast<int>(others.size()), &comm, &config));
    check(collet_comm_count(comm, &left));
    if (static_cast<size_t>(left) != ranks.size()) {
        collet_comm_abort(comm);
        TORCH_CHECK(false, "collet: ", ranks.size() - left, " of ", ranks.size(),
                    " ranks of the new group have died or left");
    }
    return comm;
}

class Group : public GroupBase {
  public:
    Group(const StorePtr &store, int rank, int size, const Plan &plan, collet_comm *comm)
        : GroupBase(rank, size), store_(store), plan_(plan), line_(std::make_shared<Line>(comm)) {}

    /* Callbacks of Futures may need the lock of the interpreter. One of them may have dropped the group. */
    ~Group() override {
        std::unique_ptr<pybind11::gil_scoped_release> unlocked;
        if (Py_IsInitialized() && PyGILState_Check())
            unlocked.reset(new pybind11::gil_scoped_release);
        for (const LinePtr &line : lines())
            line->close();
    }

    const std::string getBackendName() const override { return "collet"; }
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence_; }
    void setTimeout(Milliseconds timeout) { call_timeout_ = timeout; }
    void shutdown() {
        for (const LinePtr &line : lines())
            line->close();
    }
    void abort() {
        for (const LinePtr &line : lines())
            line->abort("it was aborted");
    }

    /* ---- groups of some of its ranks ---- */

    using OptionsPtr = c10::intrusive_ptr<typename GroupBase::Options>;
    bool supportsSplitting() const { return true; }
    OptionsPtr getBackendOptions() { return c10::make_intrusive<typename GroupBase::Options>("collet", plan_.timeout); }

    /* All ranks call this. Those that are not in `ranks`, or in no part at all, get nothing; torch asks them again for each kind
     * of device. */
    c10::intrusive_ptr<GroupBase> split(const StorePtr &store, const std::vector<int> &ranks, const OptionsPtr &opts) {
        const int at = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
        const int size = static_cast<int>(ranks.size()), color = at < size ? ranks[0] : COLLET_SPLIT_NOCOLOR;
        const Plan plan{"torch " + group_name_of(*opts, 0), opts->timeout};
        if (at == size && plan.name == left_out_of_)
            return {};
        const collet_config config = plan.config();
        collet_comm *comm;
        check(collet_comm_split(line_->comm(), color, at, &comm, &config));
        if (at < size)
            return c10::make_intrusive<Group>(store, at, size, plan, comm);
        left_out_of_ = plan.name;
        return {};
    }

    /* Those that are in `ranks` call this, and no other. */
    collet_comm *comm_of(const std::vector<int> &ranks, const collet_config &config) {
        return without_others(line_->comm(), ranks, config);
    }

    /* ---- several calls as one ---- */

    /* They are issued as ever, and the end has a Work for all of them. Older releases wait for each instead. */
    void startCoalescing() { batch_ = c10::make_intrusive<Batch>(); }
    WorkPtr endCoalescing() { return std::exchange(batch_, {}); }
    void endCoalescing(std::vector<WorkPtr> &) { batch_.reset(); }

    /* ---- all ranks, one tensor ---- */

    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override {
        Call call(OpType::ALLREDUCE, "collet:all_reduce", opts, tensors);
        const at::Tensor flat = call.writes(only(tensors));
        return collective(
            call, [&](collet_comm *comm, void *stream) { return reduce_all(flat, opts.reduceOp, comm, stream); });
    }

    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts) override {
        Call call(OpType::ALLREDUCE_COALESCED, "collet:all_reduce", opts, tensors);
        Tensors flats;
        for (const at::Tensor &tensor : tensors)
            flats.push_back(call.writes(tensor));
        return collective(call, [&](collet_comm *comm, void *stream) {
            return together([&] {
                for (const at::Tensor &flat : flats)
                    reduce_all(flat, opts.reduceOp, comm, stream);
            });
        });
    }

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override {
        Call call(OpType::BROADCAST, "collet:broadcast", opts, tensors);
        const at::Tensor flat = call.writes(only(tensors));
        const int root = static_cast<int>(opts.rootRank);
        return collective(call, [&](collet_comm *comm, void *stream) {
            return collet_broadcast(flat.data_ptr(), flat.data_ptr(), Extent(flat).count, Extent(flat).type, root, comm,
                                    stream);
        });
    }

    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override {
        Call call(OpType::REDUCE, "collet:reduce", opts, tensors);
        const int root = static_cast<int>(opts.rootRank);
        const at::Tensor flat = rank_ == root ? call.writes(only(tensors)) : call.reads(only(tensors));
        return collective(call, [&](collet_comm *comm, void *stream) {
            return collet_reduce(flat.data_ptr(), flat.data_ptr(), count_of(flat), type_of(flat),
                                 op_of(opts.reduceOp, flat), root, comm, stream);
        });
    }

    /* ---- blocks ---- */

    WorkPtr allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override {
        Call call(OpType::ALLGATHER, "collet:all_gather", opts, inputs);
        TORCH_CHECK(outputs.size() == 1, "one list of outputs per rank is expected");
        const at::Tensor in = call.reads(only(inputs));
        check_own(outputs[0], in, rank_, size_);
        const at::Tensor flat = call.writes_row(outputs[0]);
        const std::vector<size_t> counts = list_counts(outputs[0]);
        return collective(call,
                          [&](collet_comm *comm, void *stream) { return gather_list(in, flat, counts, comm, stream); });
    }

    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &opts) override {
        Tensors outputs{output}, inputs{input};
        return gather_singles(OpType::_ALLGATHER_BASE, outputs, inputs, opts);
    }

    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) {
        return gather_singles(OpType::ALLGATHER_COALESCED, outputs, inputs, opts);
    }

    WorkPtr allgather_coalesced(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override {
        Call call(OpType::ALLGATHER_COALESCED, "collet:all_gather", opts, inputs);
        TORCH_CHECK(outputs.size() == static_cast<size_t>(size_), "one list of outputs per rank is expected");
        Tensors ins, flats;
        std::vector<std::vector<size_t>> counts;
        for (size_t k = 0; k < inputs.size(); k++) {
            Tensors of_all_ranks;
            for (const Tensors &of_rank : outputs) {
                TORCH_CHECK(of_rank.size() == inputs.size(), "as many outputs per rank as inputs are expected");
                of_all_ranks.push_back(of_rank[k]);
            }
            ins.push_back(call.reads(inputs[k]));
            check_own(of_all_ranks, ins[k], rank_, size_);
            flats.push_back(call.writes_row(of_all_ranks));
            counts.push_back(list_counts(of_all_ranks));
        }
        return collective(call, [&](collet_comm *comm, void *stream) {
            return together([&] {
                for (size_t k = 0; k < ins.size(); k++)
                    gather_list(ins[k], flats[k], counts[k], comm, stream);
            });
        });
    }

    WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &opts) override {
        Call call(OpType::GATHER, "collet:gather", opts, inputs);
        const int root = static_cast<int>(opts.rootRank);
        TORCH_CHECK(outputs.size() == (rank_ == root ? 1 : 0),
                    "the root, and no other rank, gives one list of outputs");
        const at::Tensor in = call.reads(only(inputs));
        if (rank_ == root)
            check_blocks(outputs[0], size_, in);
        void *out = rank_ == root ? call.writes_row(outputs[0]).data_ptr() : nullptr;
        return collective(call, [&](collet_comm *comm, void *stream) {
            return collet_gather(in.data_ptr(), out, Extent(in).count, Extent(in).type, root, comm, stream);
        });
    }

    WorkPtr gather_into_tensor(at::Tensor &output, at::Tensor &input, const c10d::GatherOptions &opts) {
        Call call(OpType::GATHER, "collet:gather", opts, {input});
        const int root = static_cast<int>(opts.rootRank);
        const at::Tensor in = call.reads(input);
        if (rank_ == root)
            check_whole(output, input, size_);
        void *out = rank_ == root ? call.writes(output).data_ptr() : nullptr;
        return collective(call, [&](collet_comm *comm, void *stream) {
            return collet_gather(in.data_ptr(), out, Extent(in).count, Extent(in).type, root, comm, stream);
        });
    }

    WorkPtr scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &opts) override {
        Call call(OpType::SCATTER, "collet:scatter", opts, inputs.empty() ? Tensors() : inputs[0]);
        const int root = static_cast<int>(opts.rootRank);
        TORCH_CHECK(inputs.size() == (rank_ == root ? 1 : 0), "the root, and no other rank, gives one list of inputs");
        const at::Tensor out = call.writes(only(outputs));
        if (rank_ == root)
            check_blocks(inputs[0], size_, out);
        const void *in = rank_ == root ? call.reads_row(inputs[0]).data_ptr() : nullptr;
        return collective(call, [&](collet_comm *comm, void *stream) {
            return collet_scatter(in, out.data_ptr(), Extent(out).count, Extent(out).type, root, comm, stream);
        });
    }

    WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &opts) override {
        TORCH_CHECK(inputs.size() == 1, "one list of inputs per rank is expected");
        Call call(OpType::REDUCE_SCATTER, "collet:reduce_scatter", opts, inputs[0]);
        const at::Tensor out = call.writes(only(outputs));
        check_own(inputs[0], out, rank_, size_);
        const at::Tensor in = call.reads_row(inputs[0]);
        const std::vector<size_t> counts = list_counts(inputs[0]);
        return collective(call, [&](collet_comm *comm, void *stream) {
            return are_equal(counts) ? reduce_blocks(in, out, opts.reduceOp, comm, stream)
                                     : scatter_blocks(in, out, counts, op_of(opts.reduceOp, in), comm, stream);
        });
    }

    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &opts) override {
        Tensors outputs{output}, inputs{input};
        return reduce_singles(OpType::_REDUCE_SCATTER_BASE, outputs, inputs, opts);
    }

    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &opts) {
        return reduce_singles(OpType::REDUCE_SCATTER, outputs, inputs, opts);
    }

    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &opts) override {
        Call call(OpType::ALLTOALL_BASE, "collet:all_to_all", opts, {input});
        call.words = &words_of_splits;
        const at::Tensor in = call.reads(input), out = call.writes(output);
        const std::vector<size_t> sent = split_counts("input_split_sizes", in, input_splits, size_),
                                  received = split_counts("output_split_sizes", out, output_splits, size_);
        return collective(
            call, [&](collet_comm *comm, void *stream) { return exchange(in, sent, out, received, comm, stream); });
    }

    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override {
        Call call(OpType::ALLTOALL, "collet:all_to_all", opts, inputs);
        check_list(inputs, size_);
        check_list(outputs, size_);
        call.words = &words_of_lists;
        const std::vector<size_t> sent = list_counts(inputs), received = list_counts(outputs);
        const at::Tensor in = call.reads_row(inputs), out = call.writes_row(outputs);
        return collective(
            call, [&](collet_comm *comm, void *stream) { return exchange(in, sent, out, received, comm, stream); });
    }

    /* ---- messages ---- */

    WorkPtr send(Tensors &tensors, int peer, int tag) override {
        Call call(OpType::SEND, "collet:send", MessageOptions(), tensors);
        call.tag = tag;
        const at::Tensor flat = call.reads(only(tensors)), note = note_of(tag);
        const Extent extent(flat);
        call.note = flat.is_cpu() ? note : at::Tensor();
        return message(call, [&](collet_comm *comm, void *stream) {
            return together([&] {
                if (flat.is_cpu())
                    collet_send(note.data_ptr(), 1, COLLET_INT64, peer, comm, stream);
                collet_send(flat.data_ptr(), extent.count, extent.type, peer, comm, stream);
            });
        });
    }

    WorkPtr recv(Tensors &tensors, int peer, int tag) override {
        Call call = receipt(OpType::RECV, "collet:recv", tensors, tag);
        const at::Tensor flat = call.kept[0], note = call.note;
        return message(call, [&](collet_comm *comm, void *stream) { return receive(note, flat, peer, comm, stream); });
    }

    WorkPtr recvAnysource(Tensors &tensors, int tag) override {
        TORCH_CHECK(only(tensors).is_cpu(), "collet receives from any source on the CPU only");
        OperationPtr operation = operation_of(receipt(OpType::RECVANYSOURCE, "collet:recvAnySource", tensors, tag));
        line_->began(operation);
        line_->receiver.add([operation] {
            try {
                operation->settle(operation->receive_from_any());
            } catch (...) {
                operation->fail(std::current_exception());
            }
        });
        return operation;
    }

    /* ---- barriers ---- */

    WorkPtr barrier(const c10d::BarrierOptions &opts) override {
        Call call(OpType::BARRIER, "collet:barrier", opts);
        return collective(call, [&](collet_comm *comm, void *stream) { return collet_barrier(comm, stream); });
    }

    /* Through the store: a rank that does not come leaves the communicator as it is. */
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) override {
        const Milliseconds timeout = opts.timeout == c10d::kUnsetTimeout ? plan_.timeout : opts.timeout;
        const std::string round = "monitored barrier " + std::to_string(monitored_++) + ", ";
        if (rank_ == 0)
            meet_all(round, timeout, wait_all_ranks);
        else
            meet_rank_0(round, timeout);
    }

  private:
    template <typename Issue> WorkPtr collective(Call &call, Issue issue) {
        sequence_++;
        if (call.device.is_cuda())
            return on_gpu(call, issue);
        const bool at_once =
            call.at_once && call.timeout == c10d::kUnsetTimeout && call_timeout_ == c10d::kUnsetTimeout;
        if (!at_once)
            return issue_into(line_->collectives(), false, call, issue);
        OperationPtr operation = operation_of(std::move(call));
        operation->settle(issue(line_->comm(), nullptr));
        return operation;
    }

    /* In torch's current stream, as what comes before and after it. Never run. */
    template <typename Issue> WorkPtr on_gpu(Call &call, Issue issue) {
        call.timeout = c10d::kUnsetTimeout;
        const c10::Device device = call.device;
        const LinePtr line = gpu_line(device);
        OperationPtr operation = made(line, std::move(call));
        operation->settle(issue(line->comm(), handle_of(current_stream(device), 0)));
        return operation;
    }

    /* All ranks come here with their first call on a GPU. */
    LinePtr gpu_line(c10::Device device) {
        TORCH_CHECK(gpu_line_ == nullptr || gpu_ == device, "this group is on ", gpu_, ", and a tensor on ", device);
        if (gpu_line_ == nullptr) {
            const collet_config config = plan_.config(COLLET_DEVICE_CUDA(device.index()));
            gpu_line_ = std::make_shared<Line>(meet(store_, "collet on GPUs", rank_, size_, config));
            gpu_ = device;
        }
        return gpu_line_;
    }

    std::vector<LinePtr> lines() const {
        return gpu_line_ == nullptr ? std::vector<LinePtr>{line_} : std::vector<LinePtr>{line_, gpu_line_};
    }

    static Call receipt(OpType type, const char *title, const Tensors &tensors, int tag) {
        Call call(type, title, MessageOptions(), tensors);
        if (call.writes(only(tensors)).is_cpu()) {
            call.note = note_of(-1);
            call.tag = tag;
        }
        return call;
    }

    template <typename Issue> WorkPtr message(Call &call, Issue issue) {
        if (call.device.is_cuda())
            return on_gpu(call, issue);
        return issue_into(line_->take_stream(), true, call, issue);
    }

    template <typename Issue> WorkPtr issue_into(collet_stream *stream, bool is_own, Call &call, Issue issue) {
        OperationPtr operation = operation_of(std::move(call));
        if (is_own)
            operation->own(stream);
        const collet_result result = issue(line_->comm(), stream);
        operation->issued_on(stream);
        if (result < 0)
            operation->settle(result);
        else
            line_->began(operation);
        return operation;
    }

    OperationPtr operation_of(Call &&call) {
        if (call.timeout == c10d::kUnsetTimeout)
            call.timeout = call_timeout_;
        line_->sweep();
        return made(line_, std::move(call));
    }

    OperationPtr made(const LinePtr &line, Call &&call) {
        OperationPtr operation = c10::make_intrusive<Operation>(line, rank_, std::move(call));
        if (batch_.defined())
            batch_->add(operation);
        return operation;
    }

    collet_result reduce_all(const at::Tensor &flat, const c10d::ReduceOp &op, collet_comm *comm, void *stream) {
        return collet_allreduce(flat.data_ptr(), flat.data_ptr(), count_of(flat), type_of(flat), op_of(op, flat), comm,
                                stream);
    }

    collet_result gather_all(const at::Tensor &in, const at::Tensor &out, collet_comm *comm, void *stream) {
        return collet_allgather(in.data_ptr(), out.data_ptr(), Extent(in).count, Extent(in).type, comm, stream);
    }

    collet_result gather_list(const at::Tensor &in, const at::Tensor &out, const std::vector<size_t> &counts,
                              collet_comm *comm, void *stream) {
        return are_equal(counts) ? gather_all(in, out, comm, stream) : gather_blocks(in, out, counts, comm, stream);
    }

    collet_result gather_each(const Tensors &ins, const Tensors &outs, collet_comm *comm, void *stream) {
        return together([&] {
            for (size_t k = 0; k < ins.size(); k++)
                gather_all(ins[k], outs[k], comm, stream);
        });
    }

    collet_result reduce_blocks(const at::Tensor &in, const at::Tensor &out, const c10d::ReduceOp &op,
                                collet_comm *comm, void *stream) {
        return collet_reducescatter(in.data_ptr(), out.data_ptr(), count_of(out), type_of(out), op_of(op, out), comm,
                                    stream);
    }

    WorkPtr gather_singles(OpType type, const Tensors &outputs, const Tensors &inputs,
                           const c10d::AllgatherOptions &opts) {
        Call call(type, "collet:all_gather", opts, inputs);
        Tensors ins, outs;
        for (size_t k = 0; k < inputs.size(); k++) {
            check_whole(outputs.at(k), inputs[k], size_);
            ins.push_back(call.reads(inputs[k]));
            outs.push_back(call.writes(outputs[k]));
        }
        return collective(call, [&](collet_comm *comm, void *stream) { return gather_each(ins, outs, comm, stream); });
    }

    WorkPtr reduce_singles(OpType type, const Tensors &outputs, const Tensors &inputs,
                           const c10d::ReduceScatterOptions &opts) {
        Call call(type, "collet:reduce_scatter", opts, inputs);
        Tensors ins, outs;
        for (size_t k = 0; k < inputs.size(); k++) {
            check_whole(inputs[k], outputs.at(k), size_);
            ins.push_back(call.reads(inputs[k]));
            outs.push_back(call.writes(outputs[k]));
        }
        return collective(call, [&](collet_comm *comm, void *stream) {
            return together([&] {
                for (size_t k = 0; k < ins.size(); k++)
                    reduce_blocks(ins[k], outs[k], opts.reduceOp, comm, stream);
            });
        });
    }

    /* ---- monitored barriers ---- */

    void meet_rank_0(const std::string &round, Milliseconds timeout) {
        store_->set(round + std::to_string(rank_), std::vector<uint8_t>{1});
        TORCH_CHECK(
            comes(round + "passed", timeout), "Rank ", rank_,
            " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0 "
            "(it did not say within ",
            timeout.count(), " ms that all ranks have come)");
    }

    void meet_all(const std::string &round, Milliseconds timeout, bool wait_all_ranks) {
        const auto deadline = std::chrono::steady_clock::now() + timeout;
        std::string missing;
        for (int rank = 1; rank < size_ && (wait_all_ranks || missing.empty()); rank++) {
            const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
            TORCH_CHECK(left.count() > 0 || wait_all_ranks, "Rank 0 timed out in monitoredBarrier after ",
                        timeout.count(), " ms");
            if (!comes(round + std::to_string(rank), std::max(left, Milliseconds(1))))
                missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
        }
        TORCH_CHECK(missing.empty(), missing.find(',') == std::string::npos ? "Rank " : "Ranks ", missing,
                    " failed to pass monitoredBarrier in ", timeout.count(), " ms");
        store_->set(round + "passed", std::vector<uint8_t>{1});
    }

    bool comes(const std::string &key, Milliseconds timeout) {
        try {
            store_->wait({key}, timeout);
            return true;
        } catch (const std::exception &) {
            return false;
        }
    }

    const StorePtr store_;
    const Plan plan_;
    Milliseconds call_timeout_ = c10d::kUnsetTimeout;
    const LinePtr line_;
    std::string left_out_of_; /* the newest group that was split off without this rank */
    LinePtr gpu_line_;
    c10::Device gpu_ = at::kCPU;
    c10::intrusive_ptr<Batch> batch_; /* while calls are gathered */
    uint64_t sequence_ = 0, monitored_ = 0;
};

/* ---------------------------------------------------------------------------------------------------------------- memory */

/* Large tensors lie in memory of collet_mem_alloc(), all others where torch puts them. */
class Memory : public c10::Allocator {
  public:
    /* Some releases of torch have it const, others not. */
    c10::DataPtr allocate(size_t bytes) const { return get(bytes); }
    c10::DataPtr allocate(size_t bytes) { return get(bytes); }
    void copy_data(void *to, const void *from, size_t bytes) const { memcpy(to, from, bytes); }

  private:
    static constexpr size_t large_bytes = 1u << 20;

    static c10::DataPtr get(size_t bytes) {
        void *memory = nullptr;
        if (bytes < large_bytes)
            return c10::GetDefaultCPUAllocator()->allocate(bytes);
        check(collet_mem_alloc(&memory, bytes, COLLET_DEVICE_HOST));
        return {memory, memory, &give_back, c10::Device(c10::DeviceType::CPU)};
    }

    static void give_back(void *memory) { collet_mem_free(memory); }
};

void use_memory() {
    static Memory memory;
    c10::SetCPUAllocator(&memory);
}

/* parent, ranks: of a group that is made of the default one. Its ranks find each other through the default group's communicator,
 * if that is of collet; else through the store. */
c10::intrusive_ptr<GroupBase> create(const StorePtr &store, int rank, int size, Milliseconds timeout,
                                     const std::string &name, const c10::intrusive_ptr<GroupBase> &parent,
                                     const std::vector<int> &ranks) {
    const Plan plan{name, timeout};
    const collet_config config = plan.config();
    const auto of_collet = dynamic_cast<Group *>(parent.get());
    const bool splits = of_collet != nullptr && std::is_sorted(ranks.begin(), ranks.end());
    collet_comm *comm = splits ? of_collet->comm_of(ranks, config) : meet(store, "collet", rank, size, config);
    return c10::make_intrusive<Group>(store, rank, size, plan, comm);
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    /* Other ranks may be threads of this interpreter. */
    module.def("create", &create, pybind11::call_guard<pybind11::gil_scoped_release>());
    module.def("use_memory", &use_memory);
}
