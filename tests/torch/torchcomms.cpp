/* SPDX-License-Identifier: Apache-2.0
 *
 * torchcomms.cpp LIBRARY: loads the backend for torchcomms as torchcomms does, and runs its calls on 3 ranks, which are forked.
 */
#include <comms/torchcomms/TorchCommBackend.hpp>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <future>
#include <iostream>
#include <malloc.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace torch::comms;
using Tensors = std::vector<at::Tensor>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using CommPtr = std::shared_ptr<TorchCommBackend>;

namespace {

constexpr int nranks = 3;
const ReduceOp sum(ReduceOp::RedOpType::SUM);
DynamicLoaderInterface loader;
std::string meeting_place;

/* ----------------------------------------------------------------------------------------------------------- loader */

DynamicLoaderInterface load(const char *path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    TORCH_CHECK(library != nullptr, dlerror());
    const auto create = reinterpret_cast<CreateDynamicLoaderFn>(dlsym(library, "create_dynamic_loader_collet"));
    TORCH_CHECK(create != nullptr, dlerror());
    const DynamicLoaderInterface loaded = create();
    TORCH_CHECK(strcmp(loaded.get_supported_version(), TORCHCOMM_BACKEND_ABI_VERSION) == 0, "another ABI");
    return loaded;
}

CommPtr new_comm(const std::string &name, const StorePtr &store) {
    const CommPtr comm(loader.new_comm(), loader.destroy_comm);
    CommOptions options;
    options.store = store;
    comm->init(at::kCPU, name, options);
    return comm;
}

/* ---------------------------------------------------------------------------------------------------------------- cases */

at::Tensor filled(int64_t count, double value) { return at::full({count}, value, at::kFloat); }

void expect(const at::Tensor &tensor, double value) {
    TORCH_CHECK((tensor == value).all().item<bool>(), value, " was expected: ", tensor);
}

template <typename Call> void expect_failure(const char *word, Call call) {
    try {
        call();
    } catch (const std::exception &error) {
        TORCH_CHECK(strstr(error.what(), word) != nullptr, "'", word, "' is not in: ", error.what());
        return;
    }
    TORCH_CHECK(false, "no failure, but '", word, "' was expected");
}

void a_sum_is_done_when_the_call_returns(TorchCommBackend &comm) {
    at::Tensor tensor = filled(1000, comm.getRank() + 1);
    TORCH_CHECK(comm.all_reduce(tensor, sum, false)->isCompleted(), "the work is not completed");
    expect(tensor, 6);
}

void a_status_changes_without_a_waiter(TorchCommBackend &comm) {
    at::Tensor whole = at::full({6, 4}, static_cast<float>(comm.getRank())), columns = whole.t();
    const auto work = comm.all_reduce(columns, sum, true);
    while (!work->isCompleted())
        std::this_thread::yield();
    expect(whole, 3);
}

void hooks_hear_of_the_end(TorchCommBackend &comm) {
    std::atomic<int> ends{0};
    at::Tensor tensor = filled(1 << 20, 1);
    const auto work = comm.all_reduce(tensor, sum, true);
    work->registerWorkEndHook([&ends] { ends++; });
    work->wait();
    expect(tensor, nranks);
    TORCH_CHECK(ends == 1 && work->isCompleted(), ends.load(), " ends");
}

void messages_in_both_directions_need_no_order(TorchCommBackend &comm) {
    const int right = (comm.getRank() + 1) % nranks, left = (comm.getRank() + nranks - 1) % nranks;
    at::Tensor got = filled(1 << 20, -1);
    const auto sent = comm.send(filled(1 << 20, comm.getRank()), right, true);
    comm.recv(got, left, true)->wait();
    sent->wait();
    expect(got, left);
}

void a_batch_exchanges_with_all(TorchCommBackend &comm) {
    std::vector<BatchSendRecv::P2POp> ops;
    Tensors received;
    for (int peer = 0; peer < nranks; peer++) {
        received.push_back(filled(5, -1));
        ops.emplace_back(BatchSendRecv::P2POp::OpType::SEND, filled(5, comm.getRank()), peer);
        ops.emplace_back(BatchSendRecv::P2POp::OpType::RECV, received.back(), peer);
    }
    comm.batch_op_issue(ops, true)->wait();
    comm.batch_op_issue(ops, false);
    for (int peer = 0; peer < nranks; peer++)
        expect(received[static_cast<size_t>(peer)], peer);
}

void blocks_of_different_sizes_travel(TorchCommBackend &comm) {
    const int rank = comm.getRank();
    Tensors blocks, sent, received;
    for (int peer = 0; peer < nranks; peer++) {
        blocks.push_back(filled(peer + 1, -1));
        sent.push_back(filled(peer + 1, 10 * rank + peer));
        received.push_back(filled(rank + 1, -1));
    }
    comm.all_gather_v(blocks, filled(rank + 1, rank), false);
    comm.all_to_all(received, sent, true)->wait();
    for (int peer = 0; peer < nranks; peer++) {
        expect(blocks[static_cast<size_t>(peer)], peer);
        expect(received[static_cast<size_t>(peer)], 10 * peer + rank);
    }
    at::Tensor own = filled(rank + 1, -1);
    comm.reduce_scatter_v(own, blocks, sum, false);
    expect(own, nranks * rank);
    at::Tensor rows = at::full({7, 2}, static_cast<float>(rank)), out = at::full({3 * rank + 3, 2}, -1.0f);
    const std::vector<uint64_t> each(nranks, static_cast<uint64_t>(rank) + 1);
    comm.all_to_all_v_single(out, rows, each, {1, 2, 3}, false);
    for (int peer = 0; peer < nranks; peer++)
        expect(out.narrow(0, peer * (rank + 1), rank + 1), peer);
}

void equal_blocks_travel(TorchCommBackend &comm) {
    const int rank = comm.getRank();
    at::Tensor all = filled(2 * nranks, -1), own = filled(2, -1), turned = filled(nranks, -1);
    comm.all_gather_single(all, filled(2, rank), false);
    comm.reduce_scatter_single(own, all, sum, true)->wait();
    expect(own, nranks * rank);
    Tensors chunks = all.fill_(-1).chunk(nranks);
    comm.all_gather(chunks, filled(2, rank), false);
    expect(chunks[2], 2);
    comm.reduce_scatter(own, chunks, ReduceOp(ReduceOp::RedOpType::AVG), false);
    expect(own, rank);
    comm.all_to_all_single(turned, filled(nranks, rank), false);
    expect(turned[1], 1);
}

void a_root_gives_and_takes(TorchCommBackend &comm) {
    const int rank = comm.getRank();
    at::Tensor tensor = filled(4, rank), own = filled(4, -1);
    comm.broadcast(tensor, 2, false);
    expect(tensor, 2);
    comm.reduce(tensor, 1, sum, false);
    expect(tensor, rank == 1 ? 6 : 2);
    const Tensors blocks{filled(4, 0), filled(4, 1), filled(4, 2)};
    comm.scatter(own, rank == 0 ? blocks : Tensors(), 0, false);
    expect(own, rank);
    at::Tensor all = filled(4 * nranks, -1);
    comm.gather_single(all, own, 0, false);
    expect(all.slice(0, 4, 8), rank == 0 ? 1 : -1);
}

void a_part_of_the_ranks_has_its_own_order(TorchCommBackend &comm) {
    const bool is_in = comm.getRank() != 1;
    const auto part = comm.split(is_in ? std::vector<int>{2, 0} : std::vector<int>(), "ends");
    TORCH_CHECK((part != nullptr) == is_in, "a rank outside got a communicator, or one inside got none");
    if (!is_in)
        return;
    TORCH_CHECK(part->getSize() == 2 && part->getRank() == (comm.getRank() == 2 ? 0 : 1), "rank ", part->getRank());
    at::Tensor tensor = filled(3, comm.getRank());
    part->broadcast(tensor, 0, false);
    expect(tensor, 2);
    part->finalize();
}

void mistakes_are_refused_in_words(TorchCommBackend &comm) {
    at::Tensor sparse = at::eye(3).to_sparse(), small = filled(2, 0);
    expect_failure("dense", [&] { comm.all_reduce(sparse, sum, false); });
    expect_failure("do not fit", [&] { comm.all_gather_single(small, small, false); });
    SendOptions tagged;
    tagged.tag = 3;
    expect_failure("tag 3", [&] { comm.send(small, 0, false, tagged); });
    at::Tensor whole = at::zeros({2}, at::kInt), rows = filled(nranks, 0);
    expect_failure("the type of tensor", [&] { comm.all_gather_v({small, small, small}, whole, false); });
    expect_failure("the size and", [&] { comm.all_gather_v({small, small, small}, rows, false); });
    expect_failure("one split per rank", [&] { comm.all_to_all_v_single(rows, rows, {}, {}, false); });
}

void mistakes_run_no_hook(TorchCommBackend &comm) {
    int calls = 0;
    comm.registerAbortHook(1, [&calls] { calls++; });
    at::Tensor complex = at::zeros({2}, at::kComplexFloat), small = filled(2, 0);
    for (const bool is_async : {false, true}) {
        expect_failure("does not reduce", [&] { comm.all_reduce(complex, sum, is_async); });
        expect_failure("root", [&] { comm.broadcast(small, nranks, is_async); });
    }
    comm.unregisterAbortHook(1);
    TORCH_CHECK(calls == 0, calls, " hooks have run");
    comm.barrier(false);
}

/* A stream is more than 1000 bytes. */
void mistakes_keep_no_stream(TorchCommBackend &comm) {
    const at::Tensor small = filled(2, 0);
    const auto mistake = [&] { expect_failure("peer", [&] { comm.send(small, nranks, true); }); };
    mistake();
    const size_t before = mallinfo2().uordblks;
    for (int k = 0; k < 1000; k++)
        mistake();
    const size_t after = mallinfo2().uordblks;
    TORCH_CHECK(after < before + 100000, after - before, " bytes are kept");
}

/* Between deleteKey() and its effect, other ranks have time. */
class SlowStore : public c10d::FileStore {
  public:
    using FileStore::FileStore;
    bool deleteKey(const std::string &key) override {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        return FileStore::deleteKey(key);
    }
};

void a_name_is_free_when_its_communicator_is_made(TorchCommBackend &) {
    const StorePtr store = c10::make_intrusive<SlowStore>(meeting_place + ".again", nranks);
    for (int round = 0; round < 2; round++) {
        const CommPtr comm = new_comm("again", store);
        TORCH_CHECK(!store->check({"collet again"}), "an id is still there");
        comm->barrier(false);
        comm->finalize();
    }
}

class BrokenStore : public c10d::FileStore {
  public:
    using FileStore::FileStore;
    void set(const std::string &key, const std::vector<uint8_t> &value) override {
        FileStore::set(key, value);
        TORCH_CHECK(false, "the store is broken");
    }
};

void a_name_is_free_when_no_communicator_is_made(TorchCommBackend &comm) {
    if (comm.getRank() != 0)
        return;
    const StorePtr store = c10::make_intrusive<BrokenStore>(meeting_place + ".none", 1);
    expect_failure("is broken", [&] { new_comm("none", store); });
    TORCH_CHECK(!store->check({"collet none"}), "an id is still there");
}

void a_timeout_of_a_call_ends_its_communicator(TorchCommBackend &comm) {
    const auto part = comm.split({0, 1, 2}, "late");
    at::Tensor tensor = filled(4, 0);
    AllReduceOptions hasty;
    hasty.timeout = std::chrono::milliseconds(50);
    if (comm.getRank() == 0) {
        const auto work = part->all_reduce(tensor, sum, true, hasty);
        expect_failure("", [&] { work->wait(); });
        TORCH_CHECK(work->status() == TorchWork::WorkStatus::TIMEDOUT, "another status");
        expect_failure("timeout of 50 ms", [&] { part->all_reduce(tensor, sum, false); });
    } else {
        expect_failure("", [&] { part->recv(tensor, 0, false); });
    }
    TORCH_CHECK(part->isAborted() && !part->isInitialized(), "the communicator looks sound");
    TORCH_CHECK(!comm.isAborted() && comm.isInitialized(), "the timeout has reached another communicator");
    comm.barrier(false);
}

void an_abort_is_told(TorchCommBackend &comm) {
    const auto aborted = comm.split({0, 1, 2}, "aborted"), finalized = comm.split({0, 1, 2}, "finalized");
    comm.barrier(false);
    aborted->abort();
    finalized->finalize();
    TORCH_CHECK(aborted->isAborted() && !finalized->isAborted(), "an abort is not told from an end");
    at::Tensor tensor = filled(1, 0);
    expect_failure("aborted", [&] { aborted->all_reduce(tensor, sum, false); });
}

/* On rank 0, the hook runs on the thread that settles the sums, or on that of the message. */
void a_hook_may_drop_the_communicator(TorchCommBackend &comm) {
    CommPtr part = comm.split({0, 1, 2}, "dropped");
    std::promise<void> issued, dropped;
    std::atomic<bool> is_dropped{false};
    at::Tensor message = filled(4, 0);
    part->registerAbortHook(1, [&, begin = issued.get_future().share()] {
        begin.wait();
        if (is_dropped.exchange(true))
            return;
        part.reset();
        dropped.set_value();
    });
    if (comm.getRank() != 0) {
        issued.set_value();
        expect_failure("", [&] { part->recv(message, 0, false); });
    } else {
        at::Tensor tensor = filled(4, 0), other = filled(4, 0);
        AllReduceOptions hasty;
        hasty.timeout = std::chrono::milliseconds(50);
        const auto late = part->all_reduce(tensor, sum, true, hasty), behind = part->all_reduce(other, sum, true);
        const auto received = part->recv(message, 1, true);
        issued.set_value();
        dropped.get_future().wait();
        TORCH_CHECK(late->status() == TorchWork::WorkStatus::TIMEDOUT, "another status");
        expect_failure("", [&] { behind->wait(); });
        expect_failure("", [&] { received->wait(); });
    }
    TORCH_CHECK(is_dropped, "no hook has run");
    comm.barrier(false);
}

/* ---------------------------------------------------------------------------------------------------------------- ranks */

using Case = void (*)(TorchCommBackend &);
const Case cases[] = {
    a_sum_is_done_when_the_call_returns,
    a_status_changes_without_a_waiter,
    hooks_hear_of_the_end,
    messages_in_both_directions_need_no_order,
    a_batch_exchanges_with_all,
    blocks_of_different_sizes_travel,
    equal_blocks_travel,
    a_root_gives_and_takes,
    a_part_of_the_ranks_has_its_own_order,
    mistakes_are_refused_in_words,
    mistakes_run_no_hook,
    mistakes_keep_no_stream,
    a_name_is_free_when_its_communicator_is_made,
    a_name_is_free_when_no_communicator_is_made,
    a_timeout_of_a_call_ends_its_communicator,
    an_abort_is_told,
    a_hook_may_drop_the_communicator,
};

void run_rank(const char *library) {
    loader = load(library);
    const StorePtr store = c10::make_intrusive<c10d::FileStore>(meeting_place, nranks);
    const CommPtr comm = new_comm("main", store);
    TORCH_CHECK(comm->getSize() == nranks && comm->getBackendName() == "collet", "size ", comm->getSize());
    for (Case run_case : cases)
        run_case(*comm);
    comm->finalize();
    at::Tensor tensor = filled(1, 0);
    expect_failure("destroyed", [&] { comm->all_reduce(tensor, sum, false); });
}

int rank_main(int rank, const char *library) {
    setenv("TORCHCOMM_RANK", std::to_string(rank).c_str(), 1);
    setenv("TORCHCOMM_SIZE", std::to_string(nranks).c_str(), 1);
    try {
        run_rank(library);
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "rank " << rank << ": " << error.what() << "\n";
        return 1;
    }
}

} // namespace

int main(int, char **arguments) {
    std::string folder = std::filesystem::temp_directory_path() / "collet-torchcomms-XXXXXX";
    TORCH_CHECK(mkdtemp(folder.data()) != nullptr, folder);
    meeting_place = folder + "/store";
    for (int rank = 0; rank < nranks; rank++)
        if (fork() == 0)
            return rank_main(rank, arguments[1]);
    bool has_failed = false;
    for (int status, rank = 0; rank < nranks; rank++)
        has_failed |= wait(&status) < 0 || status != 0;
    std::filesystem::remove_all(folder);
    std::cout << (has_failed ? "0 passed, 1 failed\n" : std::to_string(std::size(cases)) + " passed, 0 failed\n");
    return has_failed;
}
