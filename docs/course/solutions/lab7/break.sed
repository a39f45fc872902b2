# Lab 7: tail is published without release. So its store may show before the payload of the slot.
s/port_store_fenced(end->tail,/port_line_store(end->tail,/
