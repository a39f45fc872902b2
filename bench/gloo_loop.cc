/* SPDX-License-Identifier: Apache-2.0
 *
 * The timing loop over Gloo and its TCP transport on the loopback interface; forks its ranks, which meet in a directory
 * that rank 0 makes, and removes once they are connected.
 */
#include "loop.h"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

void align(void *state) {
    gloo::BarrierOptions barrier(*static_cast<Context *>(state));
    gloo::barrier(barrier);
}

void sum(void *out, const void *a, const void *b, size_t count) { gloo::sum<float>(out, a, b, count); }

void allreduce(void *state, const float *in, float *out, size_t count) {
    gloo::AllreduceOptions call(*static_cast<Context *>(state));
    call.setInput(const_cast<float *>(in), count);
    call.setOutput(out, count);
    call.setReduceFunction(sum);
    gloo::allreduce(call);
}

void run(const loop_options &options, board *board, int rank) {
    gloo::transport::tcp::attr address;
    address.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore store(board->message);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, board->nranks);
    context->connectFullMesh(store, device);
    board_meet(board);
    if (rank == 0)
        std::filesystem::remove_all(board->message);
    loop_library library{};
    library.state = &context;
    library.align = align;
    library.calls[LOOP_ALLREDUCE] = allreduce;
    loop_run(&options, &library, board, rank);
}

} // namespace

int main(int argc, char **argv) {
    int rank;
    loop_options options = loop_options_read(argc, argv);
    board *board = board_fork(options.nranks, options.pinned, &rank);
    if (rank == 0) {
        std::strcpy(board->message, "/tmp/gloo-loop-XXXXXX");
        if (mkdtemp(board->message) == nullptr)
            bench_die("cannot make %s", board->message);
    }
    board_meet(board);
    try {
        run(options, board, rank);
    } catch (const std::exception &error) {
        bench_die("rank %d: %s", rank, error.what());
    }
    if (rank == 0)
        board_join(board);
    return 0;
}
