// SPDX-License-Identifier: Apache-2.0
//
// The timing loop over Intel's oneCCL, whose ranks Intel MPI starts. The board carries the address of its key-value store.
#include "loop.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <oneapi/ccl.hpp>

namespace {

const auto type = ccl::datatype::float32;
const auto sum = ccl::reduction::sum;

const ccl::communicator &comm_of(void *state) { return *static_cast<ccl::communicator *>(state); }

void align(void *state) { ccl::barrier(comm_of(state)).wait(); }

void allreduce(void *state, const float *in, float *out, size_t count) {
    ccl::allreduce(in, out, count, type, sum, comm_of(state)).wait();
}

void allgather(void *state, const float *in, float *out, size_t count) {
    ccl::allgather(in, out, count, type, comm_of(state)).wait();
}

void reducescatter(void *state, const float *in, float *out, size_t count) {
    ccl::reduce_scatter(in, out, count, type, sum, comm_of(state)).wait();
}

void alltoall(void *state, const float *in, float *out, size_t count) {
    ccl::alltoall(in, out, count, type, comm_of(state)).wait();
}

void broadcast(void *state, const float *, float *out, size_t count) {
    ccl::broadcast(out, count, type, 0, comm_of(state)).wait();
}

void reduce(void *state, const float *in, float *out, size_t count) {
    ccl::reduce(in, out, count, type, sum, 0, comm_of(state)).wait();
}

// Rank 0 makes the store, and the board carries its address to the others.
std::shared_ptr<ccl::kvs> store_of(board *board, int rank) {
    static_assert(ccl::kvs::address_max_size <= sizeof(board->message), "the board's message holds an address");
    std::shared_ptr<ccl::kvs> store;
    if (rank == 0) {
        store = ccl::create_main_kvs();
        std::memcpy(board->message, store->get_address().data(), ccl::kvs::address_max_size);
    }
    board_meet(board);
    if (rank != 0) {
        ccl::kvs::address_type address;
        std::memcpy(address.data(), board->message, address.size());
        store = ccl::create_kvs(address);
    }
    return store;
}

// What the launcher says.
int number_of(const char *variable) {
    const char *text = std::getenv(variable);
    if (text == nullptr)
        bench_die("%s is not set: start this by Intel MPI's mpirun", variable);
    return std::atoi(text);
}

void run(const loop_options &options) {
    int rank = number_of("PMI_RANK"), nranks = number_of("PMI_SIZE");
    if (options.board_path == nullptr)
        bench_die("-b BOARD is needed: an empty file that all ranks can open");
    board *board = board_open(options.board_path, nranks);
    ccl::init();
    auto comm = ccl::create_communicator(nranks, rank, store_of(board, rank));
    loop_library library{};
    library.state = &comm;
    library.align = align;
    loop_function *calls[] = {allreduce, allgather, reducescatter, alltoall, broadcast, reduce};
    std::memcpy(library.calls, calls, sizeof(calls));
    loop_run(&options, &library, board, rank);
}

} // namespace

int main(int argc, char **argv) {
    loop_options options = loop_options_read(argc, argv);
    try {
        run(options);
    } catch (const std::exception &error) {
        bench_die("%s", error.what());
    }
    return 0;
}
