# SPDX-License-Identifier: Apache-2.0
#
# The layers, a line each, and what each one's files are. What no layer has is the core.
#
#    core objects ──┬── objects of the layers in LAYERS ──▶ a library
#                   └── src/seams/NAME.o of each layer that is left out: what the core does without it
#
# Core objects are compiled once: a layer changes only the link.

layer_topology  := src/topo/% src/plan/atlas.c src/plan/chart.c src/plan/survey.c src/boot/bundle.c src/transport/nic.c
layer_verbs     := src/transport/verbs%
layer_ipc       := src/transport/ipc.c src/transport/gpu_% src/transport/hand_over.c
layer_gpu       := src/gpu/% src/exec/copies_% src/exec/exec_copies.c src/exec/exec_gpu.c src/exec/gpu_% src/chan/window% src/proxy/% src/plan/nvlink.c src/plan/plan_gpu.c src/api/launch.c
layer_tuner     := src/plan/cards.c src/plan/cost.c src/plan/costs.c src/plan/costs_file.c src/plan/model.c src/plan/chooser.c src/plan/limits_gpu.c src/plan/net.c src/plan/sim% src/plan/tuner.c \
    src/plan/distance.c src/plan/kernel_copies.c src/base/copy_probe.c src/base/line_probe.c src/base/two_cpus.c
layer_nccl      := src/compat/% src/transport/plug%
layer_observe   := src/api/exporter.c src/api/metrics.c src/api/report.c src/boot/census.c src/boot/clock.c src/boot/desk.c src/boot/reception.c src/chan/tracer.c \
    src/chan/selftest.c src/exec/exec_dump.c src/exec/exec_trace.c src/exec/journal.c src/exec/observer.c src/base/timeline.c src/base/json.c
layer_memory    := src/api/memory.c src/api/window.c src/exec/exec_loans.c src/fifo/loan.c src/fifo/commons.c src/transport/pledge.c
layer_verifier  := src/program/check.c src/program/order.c src/program/rehearsal.c src/program/join.c src/program/cast.c
layer_vectors   := src/api/counts.c src/api/op.c src/api/probe.c
layer_streams   := src/api/stream.c src/api/engine_thread.c
layer_elastic   := src/boot/apology.c src/boot/consent.c src/boot/relay.c src/api/shrink.c src/api/split.c src/boot/agree.c
layer_launchers := src/api/env.c src/boot/local_meeting.c src/boot/launcher_meeting.c src/boot/pmi.c src/boot/pmix.c
layer_schedules := src/plan/import.c src/program/expr.c
ALL_LAYERS := topology verbs ipc gpu tuner nccl observe memory verifier vectors streams elastic launchers schedules
