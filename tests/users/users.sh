# SPDX-License-Identifier: Apache-2.0
#
# For the tests of this folder: the small job of settings.c, built with our nccl.h and linked to our library. Sets lib, work, job.
lib=$PWD/${BUILD:-build}/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job=$work/settings
export COLLET_DEVICE=host HOME=$work LD_LIBRARY_PATH=$lib

job_is_built() { ${CC:-gcc} -std=gnu11 -O1 -Wall -Wextra -Werror -Iinclude/compat tests/users/settings.c -o "$job" "$lib/libnccl.so.2"; }
