# SPDX-License-Identifier: Apache-2.0
#
# The layers, a line each: where it lies, and which others it needs. What no layer has is the core.
#
#    core objects ──┬── objects of the layers in LAYERS ──▶ a library
#                   └── src/seams/NAME.o of each layer that is left out: what the core does without it
#
# Core objects are compiled once: a layer changes only the link. A layer has one folder, and a README in it. A new one has its line here.

#     name      folder                 needs
layer_topology  := src/topo/probe
layer_ipc       := src/transport/ipc
layer_verbs     := src/transport/verbs
layer_gpu       := src/layers/gpu
layer_tuner     := src/layers/tuner
layer_memory    := src/layers/memory
layer_observe   := src/layers/observe
layer_verifier  := src/layers/verifier
layer_vectors   := src/layers/vectors
layer_streams   := src/layers/streams
layer_elastic   := src/layers/elastic
layer_launchers := src/layers/launchers
layer_schedules := src/layers/schedules
layer_nccl      := src/layers/nccl
LIB_LAYERS := $(patsubst layer_%,%,$(filter-out layer_sources,$(filter layer_%,$(.VARIABLES))))

layer_sources = $(wildcard $(firstword $(layer_$(1)))/*.c)
