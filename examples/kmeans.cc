/* SPDX-License-Identifier: Apache-2.0
 *
 * collet from C++: a communicator that is destroyed automatically, errors that are exceptions, vectors that know their type. The
 * program finds clusters of points (k-means). Every rank has a part of the points.
 *
 *      rank 0            rank 1            rank 2
 *     · ·  ·  ·         ·  ··   ·         · ·  ·  ·       each point goes to the nearest of 5 centres
 *        ╰─────────────────┼─────────────────╯
 *                      allreduce                          per centre: sum of x, sum of y, number of points; and the cost
 *        ╭─────────────────┼─────────────────╮
 *     new centres       new centres       new centres     sum / number: the same on every rank
 *
 * Coordinates are whole numbers, so sums are exact in any order: the result is the result of one rank, bit for bit.
 *
 *   kmeans --procs 4
 */
#include "common/job.h"

#include <array>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

/* ---------------------------------------------------------------------------------------------- collet as C++ wants it */

struct collet_failure : std::runtime_error {
    explicit collet_failure(collet_result result)
        : std::runtime_error(std::string(collet_error_string(result)) + ": " + collet_last_error(nullptr)) {}
};

void must(collet_result result) {
    if (result != COLLET_SUCCESS)
        throw collet_failure(result);
}

template <typename T> constexpr collet_type type_of();
template <> constexpr collet_type type_of<float>() { return COLLET_FLOAT32; }
template <> constexpr collet_type type_of<double>() { return COLLET_FLOAT64; }
template <> constexpr collet_type type_of<int32_t>() { return COLLET_INT32; }
template <> constexpr collet_type type_of<int64_t>() { return COLLET_INT64; }

class communicator {
    /* If an exception destroys the communicator, other ranks may wait for this one forever: abort tells them. */
    struct ending {
        void operator()(collet_comm *comm) const {
            std::uncaught_exceptions() > 0 ? collet_comm_abort(comm) : collet_comm_destroy(comm);
        }
    };
    std::unique_ptr<collet_comm, ending> comm;

  public:
    explicit communicator(collet_comm *owned) : comm(owned) {}

    template <typename T> void allreduce(std::vector<T> &values, collet_op op = COLLET_SUM) {
        must(collet_allreduce(values.data(), values.data(), values.size(), type_of<T>(), op, comm.get(), nullptr));
    }
};

/* ------------------------------------------------------------------------------------------------------------- k-means */

constexpr int clusters = 5, points = 6000, coordinates = 2;

using point = std::array<int64_t, coordinates>;
using centres = std::array<point, clusters>;

/* Makes point i, which lies near one of five places. Its coordinates depend only on i. */
point make_point(uint64_t i) {
    static const centres places = {{{2000, 3000}, {9000, 1000}, {5000, 8000}, {1000, 9000}, {8000, 6000}}};
    point p = places[i % clusters];
    for (int64_t &coordinate : p) {
        i = i * 6364136223846793005u + 1442695040888963407u;
        coordinate += (int64_t)(i >> 33) % 3000 - 1500;
    }
    return p;
}

int64_t squared_distance(const point &a, const point &b) {
    int64_t sum = 0;
    for (int c = 0; c < coordinates; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
}

/* The numbers that ranks add up: for each cluster a sum per coordinate and a number of points. The cost is last. */
struct totals {
    std::vector<int64_t> numbers = std::vector<int64_t>(clusters * (coordinates + 1) + 1);
    int64_t *of(int cluster) { return &numbers[cluster * (coordinates + 1)]; }
    int64_t &cost() { return numbers.back(); }
};

totals assign(const std::vector<point> &mine, const centres &at) {
    totals sum;
    for (const point &p : mine) {
        int nearest = 0;
        for (int k = 1; k < clusters; k++)
            if (squared_distance(p, at[k]) < squared_distance(p, at[nearest]))
                nearest = k;
        for (int c = 0; c < coordinates; c++)
            sum.of(nearest)[c] += p[c];
        sum.of(nearest)[coordinates]++;
        sum.cost() += squared_distance(p, at[nearest]);
    }
    return sum;
}

/* Moves the centres to the mean of their points. True: a centre has moved. */
bool move(centres &at, totals &sum) {
    centres before = at;
    for (int k = 0; k < clusters; k++)
        for (int c = 0; c < coordinates; c++)
            if (sum.of(k)[coordinates] > 0)
                at[k][c] = sum.of(k)[c] / sum.of(k)[coordinates];
    return at != before;
}

/* Clusters the points of rank `rank` of n, with add_up() to add numbers of all ranks. Rank 0 of 1 has all points, and an add_up() that does
 * nothing. */
template <typename AddUp> centres find_clusters(int rank, int nranks, AddUp add_up) {
    std::vector<point> mine;
    for (int i = points * rank / nranks; i < points * (rank + 1) / nranks; i++)
        mine.push_back(make_point((uint64_t)i));
    centres at;
    for (int k = 0; k < clusters; k++)
        at[k] = make_point((uint64_t)k * 7);
    totals sum;
    int iteration = 0;
    do {
        sum = assign(mine, at);
        add_up(sum, iteration++);
    } while (move(at, sum));
    return at;
}

int main(int argc, char **argv) try {
    job job = job_start(argc, argv);
    communicator comm(job.comm); /* From here on it is destroyed automatically */
    if (job.rank == 0)
        printf("k-means: %d points on %d ranks, %d clusters\n", points, job.nranks, clusters);

    centres together = find_clusters(job.rank, job.nranks, [&](totals &sum, int iteration) {
        comm.allreduce(sum.numbers);
        job_count(&job, ALLREDUCE, sum.numbers.size() * sizeof(sum.numbers[0]));
        if (job.rank == 0)
            printf("iteration %2d  mean squared distance %lld\n", iteration, (long long)(sum.cost() / points));
    });
    centres alone = find_clusters(0, 1, [](totals &, int) {});
    return job_report(&job, together == alone ? 0 : 1, 0);
} catch (const std::exception &failure) {
    fprintf(stderr, "kmeans: %s\n", failure.what());
    return 1;
}
