# SPDX-License-Identifier: Apache-2.0
#
# The layers, a line each: where it lies, and which others it needs. What no layer has is the core.
#
#    core objects ──┬── objects of the layers in LAYERS ──▶ a library
#                   └── src/seams/NAME.o of each layer that is left out: what the core does without it
#
# Core objects are compiled once: a layer changes only the link. A layer has one folder, and a README in it. A new one has its line here.
# Layers begin in this order, and end in the reverse order: src/seams/layer.h.

#     name      folder                 needs
layer_topology  := src/topo/probe
layer_ipc       := src/transport/ipc
layer_verbs     := src/transport/verbs
layer_tuner     := src/layers/tuner
layer_observe   := src/layers/observe
layer_vectors   := src/layers/vectors
layer_gpu       := src/layers/gpu
layer_memory    := src/layers/memory
layer_streams   := src/layers/streams
layer_elastic   := src/layers/elastic
layer_verifier  := src/layers/verifier
layer_launchers := src/layers/launchers
layer_schedules := src/layers/schedules
layer_nccl      := src/layers/nccl
LIB_LAYERS := $(shell sed -n 's/^layer_\([a-z]*\) *:= src.*/\1/p' mk/layers.mk)

layer_sources = $(wildcard $(firstword $(layer_$(1)))/*.c)

# Those of some layers, in this order, that do something at the moments of seams/layer.h, for the list of a link (seams/list.c).
HAVE_MOMENTS := $(shell sed -n 's/^const struct layer layer_\([a-z]*\) = .*/\1/p' $(foreach l,$(LIB_LAYERS),$(call layer_sources,$(l))))
moments_of = $(foreach l,$(LIB_LAYERS),$(if $(filter $(l),$(1)),$(if $(filter $(l),$(HAVE_MOMENTS)),X($(l)))))
