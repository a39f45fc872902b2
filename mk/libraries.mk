# SPDX-License-Identifier: Apache-2.0
#
# From objects to libraries.

LIB_OBJECTS := $(call objects_of,$(filter-out $(VARIANT_FILE),$(LIB_SOURCES))) $(VARIANT_OBJECTS) $(CUDA_OBJECTS)

$(SHARED_LIB): $(LIB_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,$(SO_NAME) -Wl,-z,relro,-z,now,-z,nodelete $(if $(SANITIZE),,-Wl,--no-undefined) \
	    -Wl,--exclude-libs,ALL -o $@ $(LIB_OBJECTS) $(PRIVATE_LIBS)

$(BUILD)/lib/libcollet.so: $(SHARED_LIB)
	$(Q)ln -sf $(SO_NAME) $@

$(NCCL_LIB) $(BUILD)/gpusim/lib/libnccl.so.2: $(call objects_of,$(COMPAT_SOURCES)) $(LIB_OBJECTS) src/layers/nccl/nccl.map
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,$(@F) -Wl,-z,relro,-z,now,-z,nodelete $(if $(SANITIZE),,-Wl,--no-undefined) \
	    -Wl,--exclude-libs,ALL -Wl,--version-script,src/layers/nccl/nccl.map -o $@ $(filter %.o,$^) $(PRIVATE_LIBS)

$(NET_LIB): $(call objects_of,$(NET_SOURCES)) $(LIB_OBJECTS) src/layers/nccl/nccl_net.map
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,$(@F) -Wl,-z,relro,-z,now,-z,nodelete $(if $(SANITIZE),,-Wl,--no-undefined) \
	    -Wl,--exclude-libs,ALL -Wl,--version-script,src/layers/nccl/nccl_net.map -o $@ $(filter %.o,$^) $(PRIVATE_LIBS)

# One object whose internal names are local: they cannot meet names of the program it is linked into.
$(STATIC_LIB): $(LIB_OBJECTS)
	@mkdir -p $(@D)
	$(call say,AR)
	$(Q)$(LD) -r -o $(OBJ)/collet.o $(LIB_OBJECTS)
	$(Q)$(OBJCOPY) --localize-hidden $(OBJ)/collet.o
	@rm -f $@
	$(Q)$(AR) rcsD $@ $(OBJ)/collet.o

$(INTERNAL_LIB): $(LIB_OBJECTS)
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $(LIB_OBJECTS)

$(FORECAST_LIB): $(call objects_of,$(FORECAST_SOURCES))
	@mkdir -p $(@D)
	$(call say,AR)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^

# What a program is linked with, to use the static library.
.PHONY: static-link
static-link:
	@echo $(STATIC_LIB) $(PRIVATE_LIBS)
