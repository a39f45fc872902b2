#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Which nvcc and which runtime of CUDA a build takes where there are several: stubs of two toolkits, one with its libraries where
# NVIDIA puts them, one where Debian does.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

toolkit() { # NAME FOLDER-OF-LIBRARIES VERSION
    mkdir -p "$work/$1/bin" "$work/$1/$2"
    touch "$work/$1/$2/libcudart_static.a"
    cat >"$work/$1/bin/nvcc" <<STUB
#!/bin/sh
case \$1 in
--version) echo "Cuda compilation tools, release $3" ;;
--list-gpu-arch) echo compute_90 ;;
esac
STUB
    chmod +x "$work/$1/bin/nvcc"
}
toolkit nvidia lib64 13.0
toolkit debian lib/x86_64-linux-gnu 12.4

# takes ROOT MAJOR [VARIABLE-OF-THE-ENVIRONMENT=…]… [-- ARGUMENT-OF-MAKE]…
takes() {
    local root=$work/$1 major=$2 environment=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do environment+=("$1"); shift; done
    shift
    local said
    said=$(env -u NVCC -u CUDA_HOME -u CUDA_LIBDIR -u MAKEFLAGS "${environment[@]}" make -pnr CUDA=1 "$@" help 2>/dev/null)
    grep -qE "^CUDA_HOME :?= $root\$" <<<"$said" && grep -qE "^CUDA_MAJOR := $major\$" <<<"$said" &&
        grep -qE "^CUDA_LIBS := $root/.*/libcudart_static\.a " <<<"$said" || { grep -E '^(CUDA_|NVCC )' <<<"$said"; return 1; }
}

check nvcc_of_the_path takes debian 12 PATH="$work/debian/bin:$PATH"
check cuda_home_of_the_environment_before_the_path takes nvidia 13 CUDA_HOME="$work/nvidia" PATH="$work/debian/bin:$PATH"
ln -s nvidia "$work/link"
check cuda_home_by_a_link_is_the_same_for_a_make_below takes link 13 CUDA_HOME="$work/link"
check nvcc_that_is_given_with_its_own_runtime takes debian 12 CUDA_HOME="$work/nvidia" -- NVCC="$work/debian/bin/nvcc"
check nvcc_that_is_given_by_name takes debian 12 CUDA_HOME="$work/nvidia" PATH="$work/debian/bin:$PATH" -- NVCC=nvcc
finish
