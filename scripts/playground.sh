#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# playground.sh FILE.html: the page in which programs, verifier and cost model run (src/layers/tools/play/), as one file that needs no
# network. Needs emscripten's emcc; without it, exit status 3.
set -u
page=${1:?usage: scripts/playground.sh FILE.html}
cd "$(dirname "$0")/.." || exit 1
command -v emcc >/dev/null || exit 3
export NODE_PATH=${NODE_PATH:-/usr/share/nodejs} # where Debian has what emcc loads
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Whatever reads no machine, no network and no file.
sources=(src/base/{config,err,log,memory,output,spelling,types}.c src/chan/slots.c src/transport/conn.c src/layers/observe/{json,timeline}.c
    src/layers/gpu/nvlink.c src/layers/tools/prog/{page,script}.c src/layers/tools/play/{play,os}.c)
for file in src/{program,algo,algo/many,fifo,plan,topo,topo/probe}/*.c src/layers/{verifier,schedules,tuner,tools/forecast}/*.c; do
    case ${file##*/} in
    plan.c | map.c | survey.c | layer.c | files.c | hwloc_read.c | probe.c | here.c | sysfs.c | locate.c | nic.c | xml_*.c) ;;
    *_probe.c | on_cpus.c | distance.c | host_find.c | chooser.c | import.c) ;;
    *) sources+=("$file") ;;
    esac
done

printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -c \
    'emcc -O2 -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc -I. -c "$1" -o "$2/${1//\//_}.o"' _ {} "$work" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
emcc -O2 "$work"/*.o -o "$work/play.wasm" -sSTANDALONE_WASM --no-entry -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=2GB \
    -sTOTAL_STACK=1MB -sEXPORTED_FUNCTIONS=_malloc,_free 2>"$work/log" || { cat "$work/log" >&2; exit 1; }

# The module and the page that animates programs stand in the playground as text.
python3 - src/layers/tools/play/play.html "$work/play.wasm" src/layers/tools/prog/page.html "$page" <<'END'
import base64, json, sys
template, wasm, animation, out = sys.argv[1:]
text = open(template, encoding="utf-8").read()
module = base64.b64encode(open(wasm, "rb").read()).decode()
frame = json.dumps(open(animation, encoding="utf-8").read()).replace("<", "\\u003c")
open(out, "w", encoding="utf-8").write(text.replace("@WASM@", module).replace('"@ANIMATION@"', frame))
END
