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
#include <iostream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace torch::comms;
using Tensors = std::vector<at::Tensor>;

namespace {

constexpr int nranks = 3;
const ReduceOp sum(ReduceOp::RedOpType::SUM);

/* --------------------------------------------------------------------------------------------------------- stub loader */

DynamicLoaderInterface load(const char *path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    TORCH_CHECK(library != nullptr, dlerror());
    const auto create = reinterpret_cast<CreateDynamicLoaderFn>(dlsym(library, "create_dynamic_loader_collet"));
    TORCH_CHECK(create != nullptr, dlerror());
    const DynamicLoaderInterface loader = create();
    TORCH_CHECK(strcmp(loader.get_supported_version(), TORCHCOMM_BACKEND_ABI_VERSION) == 0, "another ABI");
    return loader;
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
    }
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
    a_timeout_of_a_call_ends_its_communicator,
};

void run_rank(const char *library, const std::string &meeting_place) {
    const DynamicLoaderInterface loader = load(library);
    const std::shared_ptr<TorchCommBackend> comm(loader.new_comm(), loader.destroy_comm);
    CommOptions options;
    options.store = c10::make_intrusive<c10d::FileStore>(meeting_place, nranks);
    comm->init(at::kCPU, "main", options);
    TORCH_CHECK(comm->getSize() == nranks && comm->getBackendName() == "collet", "size ", comm->getSize());
    for (Case run_case : cases)
        run_case(*comm);
    comm->finalize();
    at::Tensor tensor = filled(1, 0);
    expect_failure("destroyed", [&] { comm->all_reduce(tensor, sum, false); });
}

int rank_main(int rank, const char *library, const std::string &meeting_place) {
    setenv("TORCHCOMM_RANK", std::to_string(rank).c_str(), 1);
    setenv("TORCHCOMM_SIZE", std::to_string(nranks).c_str(), 1);
    try {
        run_rank(library, meeting_place);
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
    for (int rank = 0; rank < nranks; rank++)
        if (fork() == 0)
            return rank_main(rank, arguments[1], folder + "/store");
    bool has_failed = false;
    for (int status, rank = 0; rank < nranks; rank++)
        has_failed |= wait(&status) < 0 || status != 0;
    std::filesystem::remove_all(folder);
    std::cout << (has_failed ? "0 passed, 1 failed\n" : std::to_string(std::size(cases)) + " passed, 0 failed\n");
    return has_failed;
}
