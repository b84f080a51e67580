#!/usr/bin/env bash
# Installs a build into a temporary root and uses it from there as a stranger would: pkg-config, shared and static
# linking, symbols, the program.
#
#     tests/test_install.sh SOURCE BUILD
set -euo pipefail

source_dir=$1
build_dir=$2
cc=${CC:-cc} # may be two words, as in ccache cc
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

die() {
    echo "test_install: $*" >&2
    exit 1
}

(cd "$build_dir" && DESTDIR=$root meson install --no-rebuild --quiet)

pc=$(find "$root" -name kazahana.pc)
[ -n "$pc" ] || die "no kazahana.pc was installed"
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$root
read -ra flags < <(pkg-config --cflags --libs kazahana)
libdir=$(dirname "$(dirname "$pc")")

# The shared library, found by its soname.
$cc -std=gnu11 -Wall -Werror "$source_dir/examples/hello.c" -o "$root/hello" "${flags[@]}"
LD_LIBRARY_PATH=$libdir "$root/hello" >"$root/ids"
[ "$(wc -l <"$root/ids")" -eq 5 ] || die "hello printed $(wc -l <"$root/ids") IDs instead of 5"
sort -nuc "$root/ids" || die "hello's IDs do not increase"

# The README's program, as a reader would copy it.
awk '/^```$/ { inside = 0 } inside; /^```c$/ { inside = 1 }' "$source_dir/README.md" >"$root/readme.c"
$cc -std=c11 -Wall -Wextra -pedantic -Werror "$root/readme.c" -o "$root/readme" "${flags[@]}"
LD_LIBRARY_PATH=$libdir "$root/readme" | grep -qE '^[0-9]+$' || die "the README's program printed no ID"
readelf -d "$root/hello" | grep -qE 'NEEDED.*\[libkazahana\.so\.[0-9]+\.[0-9]+\]' ||
    die "hello does not need libkazahana.so.X.Y"

# The static one.
read -ra flags < <(pkg-config --cflags kazahana)
read -ra others < <(pkg-config --print-requires-private kazahana | PKG_CONFIG_SYSROOT_DIR='' xargs pkg-config --libs)
$cc -std=gnu11 "$source_dir/examples/hello.c" -o "$root/hello-static" "${flags[@]}" \
    "$libdir/libkazahana.a" "${others[@]}" -pthread
"$root/hello-static" >/dev/null

# What the header declares is what is exported: nothing more, nothing less, nothing internal.
nm -D --defined-only "$libdir/libkazahana.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$root/exported"
tr '\n' ' ' <"$source_dir/include/kazahana.h" | grep -oE 'KZ_API[^;(]*\(' | grep -oE 'kz_[a-z0-9_]+ *\($' | tr -d ' (' |
    sort >"$root/declared"
if grep -vE '^kz_[a-z]' "$root/exported"; then die "these should not be exported"; fi
diff "$root/declared" "$root/exported" || die "declared (<) and exported (>) differ"
nm -D --defined-only "$libdir/libkazahana.so" | grep -q ' kz_open@@KAZAHANA_0.1$' || die "kz_open carries no version"

# The program needs no library of ours at run time.
program=$(find "$root" -type f -name kazahana -perm -u+x -path '*/bin/*')
[ -n "$program" ] || die "the program was not installed"
"$program" --version >/dev/null || die "the installed program does not run"
