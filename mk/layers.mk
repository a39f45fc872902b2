# SPDX-License-Identifier: Apache-2.0
#
# The layers, a line each: where it lies, and which others it needs. What no layer has is the core. A layer needs another one if it includes
# a header of it or takes a name of it for which there is no stand-in. Names that src/seams has are no need.
#
#    core objects ──┬── objects of the layers in LAYERS ──▶ a library
#                   └── src/seams/NAME.o of each layer that is left out: what the core does without it
#
# Core objects are compiled once: a layer changes only the link. A layer has one folder, and a README in it. A new one has its line here.
# Layers begin in this order, and end in the reverse order: src/seams/layer.h.

#     name      folder                needs
layer_many      := src/algo/many
layer_patrol    := src/layers/patrol
layer_outlet    := src/layers/outlet
layer_topology  := src/topo/probe        tuner schedules gpu outlet
layer_ipc       := src/transport/ipc     gpu
layer_verbs     := src/transport/verbs   topology ipc gpu memory patrol
layer_tuner     := src/layers/tuner      topology gpu
layer_observe   := src/layers/observe    outlet
layer_metrics   := src/layers/metrics    observe outlet
layer_vectors   := src/layers/vectors    gpu
layer_gpu       := src/layers/gpu        topology ipc tuner elastic patrol
layer_memory    := src/layers/memory     verbs gpu
layer_windows   := src/layers/windows    memory gpu patrol
layer_streams   := src/layers/streams
layer_elastic   := src/layers/elastic    topology
layer_verifier  := src/layers/verifier   schedules
layer_launchers := src/layers/launchers
layer_schedules := src/layers/schedules  topology verifier
layer_nccl      := src/layers/nccl       topology ipc verbs tuner memory windows observe vectors elastic
LIB_LAYERS := $(shell sed -n 's/^layer_\([a-z]*\) *:= src.*/\1/p' mk/layers.mk)
# They stand beside the library. Nothing of it includes them.
beside_tools    := src/layers/tools      topology verbs gpu tuner observe metrics verifier schedules nccl

layer_sources = $(wildcard $(firstword $(layer_$(1)))/*.c)
layer_needs   = $(filter-out src/%,$(layer_$(1)))
# Layers with all that they need, and what that needs. They may need each other: it ends when nothing new comes.
with_needs = $(call until_whole,$(sort $(1)),$(sort $(1) $(foreach l,$(1),$(call layer_needs,$(l)))))
until_whole = $(if $(filter-out $(1),$(2)),$(call with_needs,$(2)),$(2))

# Those of some layers, in this order, that do something at the moments of seams/layer.h, for the list of a link (seams/list.c).
HAVE_MOMENTS := $(shell sed -n 's/^const struct layer layer_\([a-z]*\) = .*/\1/p' $(foreach l,$(LIB_LAYERS),$(call layer_sources,$(l))))
moments_of = $(foreach l,$(LIB_LAYERS),$(if $(filter $(l),$(1)),$(if $(filter $(l),$(HAVE_MOMENTS)),X($(l)))))
