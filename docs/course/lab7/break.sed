# Lab 7: commands of sed, applied to a copy of src/fifo/fifo.h. Weaken one memory order there.
#
# Example, which changes nothing, as there is no such function:
s/port_store_strongly/port_store_weakly/
