#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes schedules as MSCCL-style XML, for tests of collet-prog --import and COLLET_PROGRAM.
#
# usage: schedules.py NAME RANKS > FILE        NAME is a function of this file

import sys


class Schedule:
    """Threadblocks by (gpu, send to, receive from, channel), each a list of steps; a step is its attributes."""

    def __init__(self, coll, n, chunks, inputs, outputs, scratch=0, inplace=0):
        self.head = f'<algo name="{sys.argv[1]}" proto="Simple" nchannels="1" nchunksperloop="{chunks}" ngpus="{n}" coll="{coll}" ' \
                    f'inplace="{inplace}" outofplace="{1 - inplace}">'
        self.n, self.sizes, self.gpus = n, f'i_chunks="{inputs}" o_chunks="{outputs}" s_chunks="{scratch}"', [{} for _ in range(n)]

    def step(self, gpu, block, type, src=('i', 0), dst=('o', 0), cnt=1, dep=None):
        """Returns the number of the step, to depend on."""
        blocks = self.gpus[gpu]
        steps = blocks.setdefault(block, [])
        depid, deps = (list(blocks).index(dep[0]), dep[1]) if dep else (-1, -1)
        steps.append(f'<step s="{len(steps)}" type="{type}" srcbuf="{src[0]}" srcoff="{src[1]}" dstbuf="{dst[0]}" dstoff="{dst[1]}" '
                     f'cnt="{cnt}" depid="{depid}" deps="{deps}" hasdep="0"/>')
        return block, len(steps) - 1

    def write(self):
        print(self.head)
        for gpu, blocks in enumerate(self.gpus):
            print(f'  <gpu id="{gpu}" {self.sizes}>')
            for number, ((send, recv, chan), steps) in enumerate(blocks.items()):
                print(f'    <tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">')
                print('\n'.join('      ' + step for step in steps))
                print('    </tb>')
            print('  </gpu>')
        print('</algo>')


def ring_steps(s, r, block, at, n):
    """Rank r's part of a ring that reduces and then spreads; at: the chunks in the order in which r sends them."""
    s.step(r, block, 's', at[0], at[0])
    for k in range(1, n - 1):
        s.step(r, block, 'rrs', at[k], at[k])
    s.step(r, block, 'rrcs', at[n - 1], at[n - 1])
    for k in range(n, 2 * n - 2):
        s.step(r, block, 'rcs', at[k], at[k])
    s.step(r, block, 'r', at[2 * n - 2], at[2 * n - 2])


def allreduce_ring(n):
    s = Schedule('allreduce', n, n, n, 0, inplace=1)
    for r in range(n):
        block = ((r + 1) % n, (r - 1) % n, 0)
        at = [('i', (r - 1 - k) % n) for k in range(2 * n)]
        ring_steps(s, r, block, at, n)
    return s


def allreduce_ring_instances(n):
    """Two instances on a channel each, interleaved: chunk 2c+i is chunk c of instance i."""
    s = Schedule('allreduce', n, 2 * n, 2 * n, 0, inplace=1)
    for r in range(n):
        for i in range(2):
            block = ((r + 1) % n, (r - 1) % n, i)
            at = [('i', 2 * ((r - 1 - k) % n) + i) for k in range(2 * n)]
            ring_steps(s, r, block, at, n)
    return s


def allreduce_rings_both_ways(n):
    """Chunk factor 2: the even chunks go round one way, the odd ones the other way."""
    s = Schedule('allreduce', n, 2 * n, 2 * n, 0, inplace=1)
    for r in range(n):
        for way in (1, -1):
            odd = (1 - way) // 2
            block = ((r + way) % n, (r - way) % n, odd)
            at = [('i', 2 * ((r - way * (1 + k)) % n) + odd) for k in range(2 * n)]
            ring_steps(s, r, block, at, n)
    return s


def allreduce_pairs_factor(n):
    """All pairs with chunk factor 3: a rank's slice is three chunks, which one instruction moves (cnt)."""
    f = 3
    s = Schedule('allreduce', n, n * f, n * f, 0, scratch=n * f, inplace=1)
    for r in range(n):
        others = [(r + d) % n for d in range(1, n)]
        got = {}
        for p in others:
            s.step(r, (p, p, 0), 's', ('i', p * f), ('s', r * f), cnt=f)
            got[p] = s.step(r, (p, p, 0), 'r', ('i', r * f), ('s', p * f), cnt=f)
        last = None
        for p in others:
            s.step(r, (-1, -1, 0), 'nop', dep=got[p])
            last = s.step(r, (-1, -1, 0), 're', ('s', p * f), ('i', r * f), cnt=f)
        for p in others:
            s.step(r, (p, p, 0), 's', ('i', r * f), ('i', r * f), cnt=f, dep=last)
            s.step(r, (p, p, 0), 'r', ('i', p * f), ('i', p * f), cnt=f)
    return s


def allreduce_pairs(n):
    """All pairs: every rank gathers its slice of all others in scratch, reduces there, and sends the sum to all."""
    s = Schedule('allreduce', n, n, n, 0, scratch=n, inplace=1)
    for r in range(n):
        others = [(r + d) % n for d in range(1, n)]
        got = {}
        for p in others:
            s.step(r, (p, p, 0), 's', ('i', p), ('s', r))
            got[p] = s.step(r, (p, p, 0), 'r', ('i', r), ('s', p))
        last = None
        for p in others:
            last = s.step(r, (-1, -1, 0), 'nop', dep=got[p])
            last = s.step(r, (-1, -1, 0), 're', ('s', p), ('i', r))
        for p in others:
            s.step(r, (p, p, 0), 's', ('i', r), ('i', r), dep=last)
            s.step(r, (p, p, 0), 'r', ('i', p), ('i', p))
    return s


def allgather_ring(n):
    s = Schedule('allgather', n, n, 1, n, inplace=1)
    for r in range(n):
        block = ((r + 1) % n, (r - 1) % n, 0)
        s.step(r, block, 's', ('i', 0), ('o', r))
        for k in range(1, n - 1):
            s.step(r, block, 'rcs', ('o', (r - k) % n), ('o', (r - k) % n))
        s.step(r, block, 'r', ('o', (r + 1) % n), ('o', (r + 1) % n))
    return s


def allgather_ring_in_output(n):
    """In place: a file that names the own block by its place in the output alone."""
    s = Schedule('allgather', n, n, 0, n, inplace=1)
    for r in range(n):
        block = ((r + 1) % n, (r - 1) % n, 0)
        s.step(r, block, 's', ('o', r), ('o', r))
        for k in range(1, n - 1):
            s.step(r, block, 'rcs', ('o', (r - k) % n), ('o', (r - k) % n))
        s.step(r, block, 'r', ('o', (r + 1) % n), ('o', (r + 1) % n))
    return s


def allgather_pairs(n):
    """Out of place: a copy of the own block, and a threadblock for each other rank."""
    s = Schedule('allgather', n, n, 1, n)
    for r in range(n):
        s.step(r, (-1, -1, 0), 'cpy', ('i', 0), ('o', r))
        for p in ((r + d) % n for d in range(1, n)):
            s.step(r, (p, p, 0), 's', ('i', 0), ('o', r))
            s.step(r, (p, p, 0), 'r', ('o', p), ('o', p))
    return s


def allgather_copies(n, first='i'):
    """Out of place: the own block is copied to scratch and to the output. The next rank gets it from the input, the others
    from scratch."""
    s = Schedule('allgather', n, n, 1, n, scratch=1)
    for r in range(n):
        copied = s.step(r, (-1, -1, 0), 'cpy', ('i', 0), ('s', 0))
        s.step(r, (-1, -1, 0), 'cpy', ('i', 0), ('o', r))
        for d in range(1, n):
            to, of = (r + d) % n, (r - d) % n
            whence = first if d == 1 else 's'
            s.step(r, (to, of, 0), 's', (whence, 0), ('o', r), dep=copied if whence == 's' else None)
            s.step(r, (to, of, 0), 'r', ('o', of), ('o', of))
    return s


def allgather_copies_of_scratch(n):
    """The same, but all others get it from scratch: only the copies read the input."""
    return allgather_copies(n, 's')


def allgather_ring_factor(n, f=2, inplace=1, chan=lambda j: 0):
    """Each rank's block is f chunks, and each of them goes round the ring by itself, on the channel of its number."""
    s = Schedule('allgather', n, f * n, f, f * n, inplace=inplace)
    for r in range(n):
        for j in range(f):
            block = ((r + 1) % n, (r - 1) % n, chan(j))
            if not inplace:
                s.step(r, (-1, -1, j), 'cpy', ('i', j), ('o', f * r + j))
            s.step(r, block, 's', ('i', j), ('o', f * r + j))
            for k in range(1, n - 1):
                at = ('o', f * ((r - k) % n) + j)
                s.step(r, block, 'rcs', at, at)
            at = ('o', f * ((r + 1) % n) + j)
            s.step(r, block, 'r', at, at)
    return s


def allgather_ring_channels(n):
    """The same on three channels, out of place."""
    return allgather_ring_factor(n, 3, 0, lambda j: j)


def allgather_pairs_factor(n):
    """Each rank's block is 3 chunks. One instruction copies them; to each other rank the first goes alone, and then two at once."""
    s = Schedule('allgather', n, 3 * n, 3, 3 * n)
    for r in range(n):
        s.step(r, (-1, -1, 0), 'cpy', ('i', 0), ('o', 3 * r), cnt=3)
        for p in ((r + d) % n for d in range(1, n)):
            for first, cnt in ((0, 1), (1, 2)):
                s.step(r, (p, p, 0), 's', ('i', first), ('o', 3 * r + first), cnt=cnt)
                s.step(r, (p, p, 0), 'r', ('o', 3 * p + first), ('o', 3 * p + first), cnt=cnt)
    return s


def allgather_pairs_in_output(n):
    """In place, two chunks per block: a message to the next rank has both, one to any other rank has one."""
    s = Schedule('allgather', n, 2 * n, 2, 2 * n, inplace=1)
    for r in range(n):
        for d in range(1, n):
            to, of = (r + d) % n, (r - d) % n
            for first, cnt in ((0, 2),) if d == 1 else ((0, 1), (1, 1)):
                s.step(r, (to, of, 0), 's', ('o', 2 * r + first), ('o', 2 * r + first), cnt=cnt)
                s.step(r, (to, of, 0), 'r', ('o', 2 * of + first), ('o', 2 * of + first), cnt=cnt)
    return s


def allgather_by_numbers(n):
    """Even n, two chunks per block. Neighbours swap blocks; then a message has chunks of the same number, of both their blocks."""
    s = Schedule('allgather', n, 2 * n, 2, 2 * n, scratch=2 * n)
    for r in range(n):
        mate, own = r ^ 1, (-1, -1, 0)
        s.step(r, own, 'cpy', ('i', 0), ('o', 2 * r), cnt=2)
        for j in range(2):
            s.step(r, own, 'cpy', ('i', j), ('s', 2 * j + r % 2))
            s.step(r, (mate, mate, 0), 's', ('i', j), ('s', 2 * j + r % 2))
            got = s.step(r, (mate, mate, 0), 'r', ('s', 2 * j + mate % 2), ('s', 2 * j + mate % 2))
            last = s.step(r, own, 'cpy', ('s', 2 * j + mate % 2), ('o', 2 * mate + j), dep=got)
        for d in range(2, n, 2):
            to, of, at = (r + d) % n, (r - d) % n, 2 * d
            for j in range(2):
                s.step(r, (to, of, 0), 's', ('s', 2 * j), ('s', at + 2 * j), cnt=2, dep=last)
                s.step(r, (to, of, 0), 'r', ('s', at + 2 * j), ('s', at + 2 * j), cnt=2)
                for k in range(2):
                    s.step(r, (to, of, 0), 'cpy', ('s', at + 2 * j + k), ('o', 2 * (of - of % 2 + k) + j))
    return s


def reducescatter_ring_factor(n):
    """Two chunks per block: the even ones go round one way, the odd ones the other way."""
    s = Schedule('reducescatter', n, 2 * n, 2 * n, 2)
    for r in range(n):
        for way in (1, -1):
            odd = (1 - way) // 2
            block = ((r + way) % n, (r - way) % n, odd)
            s.step(r, block, 's', ('i', 2 * ((r - way) % n) + odd))
            for k in range(2, n):
                s.step(r, block, 'rrs', ('i', 2 * ((r - k * way) % n) + odd))
            s.step(r, block, 'rrc', ('i', 2 * r + odd), ('o', odd))
    return s


def alltoall_factor(n):
    """Two chunks per block: a message has both, and each is copied out of scratch alone."""
    s = Schedule('alltoall', n, 2 * n, 2 * n, 2 * n, scratch=2 * n)
    for r in range(n):
        s.step(r, (-1, -1, 0), 'cpy', ('i', 2 * r), ('o', 2 * r), cnt=2)
        for p in ((r + d) % n for d in range(1, n)):
            s.step(r, (p, p, 0), 's', ('i', 2 * p), ('s', r), cnt=2)
            s.step(r, (p, p, 0), 'r', ('s', 2 * p), ('s', 2 * p), cnt=2)
            s.step(r, (p, p, 0), 'cpy', ('s', 2 * p), ('o', 2 * p))
            s.step(r, (p, p, 0), 'cpy', ('s', 2 * p + 1), ('o', 2 * p + 1))
    return s


def reducescatter_ring(n):
    s = Schedule('reducescatter', n, n, n, 1)
    for r in range(n):
        block = ((r + 1) % n, (r - 1) % n, 0)
        s.step(r, block, 's', ('i', (r - 1) % n))
        for k in range(2, n):
            s.step(r, block, 'rrs', ('i', (r - k) % n))
        s.step(r, block, 'rrc', ('i', r), ('o', 0))
    return s


def reducescatter_pairs(n):
    """In place: scratch for what others send, reduced into the own block of the input."""
    s = Schedule('reducescatter', n, n, n, 0, scratch=n, inplace=1)
    for r in range(n):
        for p in ((r + d) % n for d in range(1, n)):
            s.step(r, (p, p, 0), 's', ('i', p), ('s', r))
            got = s.step(r, (p, p, 0), 'r', ('i', r), ('s', p))
            s.step(r, (-1, -1, 0), 're', ('s', p), ('i', r), dep=got)
    return s


def alltoall_direct(n):
    s = Schedule('alltoall', n, n, n, n)
    for r in range(n):
        s.step(r, (-1, -1, 0), 'cpy', ('i', r), ('o', r))
        for p in ((r + d) % n for d in range(1, n)):
            s.step(r, (p, p, 0), 's', ('i', p), ('o', r))
            s.step(r, (p, p, 0), 'r', ('o', p), ('o', p))
    return s


def alltoall_two_step(n):
    """On two nodes of n/2 ranks: first to the mate in the own node that has the number of the target, in scratch, then across."""
    half, s = n // 2, Schedule('alltoall', n, n, n, n, scratch=n)
    for r in range(n):
        node, me = divmod(r, half)
        there = (1 - node) * half
        mate = there + me
        s.step(r, (-1, -1, 1), 'cpy', ('i', r), ('o', r))
        s.step(r, (-1, -1, 1), 'cpy', ('i', mate), ('s', me))
        last = s.step(r, (-1, -1, 1), 'nop')
        for d in range(1, half):
            p = (me + d) % half
            q = (me - d) % half
            s.step(r, (node * half + p, node * half + q, 0), 's', ('i', node * half + p), ('o', r))
            s.step(r, (node * half + p, node * half + q, 0), 'r', ('o', node * half + q), ('o', node * half + q))
            s.step(r, (node * half + p, node * half + q, 0), 's', ('i', there + p), ('s', me))
            last = s.step(r, (node * half + p, node * half + q, 0), 'r', ('s', q), ('s', q), dep=last)
        s.step(r, (mate, mate, 0), 's', ('s', 0), ('o', node * half), cnt=half, dep=last)
        s.step(r, (mate, mate, 0), 'r', ('o', there), ('o', there), cnt=half)
    return s


globals()[sys.argv[1]](int(sys.argv[2])).write()
