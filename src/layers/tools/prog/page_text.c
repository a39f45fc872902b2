/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of page.html, as it is.
 */
__asm__(".section .rodata\n"
        ".globl page_template\n"
        "page_template: .incbin \"src/layers/tools/prog/page.html\"\n"
        ".byte 0\n"
        ".previous\n");
