#!/usr/bin/env bash
# Compiles the flat copy of the library as a stranger would, with nothing but libc, and runs tests against it.
#
#     tests/test_flat_core.sh SOURCE COMPILER
set -euo pipefail

source_dir=$1
cc=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

die() {
    echo "test_flat_core: $*" >&2
    exit 1
}

command -v "$cc" >/dev/null || { echo "$cc is not installed"; exit 77; }
"$source_dir/scripts/flat-core" "$root/flat"

# The last two are the build's own exception: gcc passes over what it does not know, clang is told to.
flags=(-std=gnu11 -O2 -fPIC -pthread -D_GNU_SOURCE -DKZ_OWN_CRYPTO -DKZ_API= -fvisibility=hidden -I"$root/flat"
    -Wall -Wextra -Werror -Wno-unknown-warning-option -Wno-format-truncation)
compile() { # compile DIRECTORY [FLAG...]
    mkdir -p "$1"
    (cd "$1" && printf '%s\0' "$root"/flat/kz_*.c | xargs -0 -P 2 -n 8 "$cc" "${flags[@]}" "${@:2}" -c)
}
compile "$root/objects"

# Nothing but libc is needed, and no name shows.
"$cc" -shared -nodefaultlibs -Wl,-z,defs -o "$root/alone.so" "$root"/objects/*.o -lc || die "libc alone is not enough"
if nm -D --defined-only "$root/alone.so" | grep ' kz_'; then die "these names should be hidden"; fi

# With the other libraries every file still compiles, also where TLS is not wanted.
more=(-DKZ_NO_TLS)
while read -r macro packages; do
    read -ra wanted <<<"$packages"
    pkg-config --exists "${wanted[@]}" || continue
    read -ra paths <<<"$(pkg-config --cflags-only-I "${wanted[@]}")"
    more+=("-D$macro" "${paths[@]}")
done <"$root/flat/packages"
compile "$root/full" "${more[@]}"
if nm -u "$root"/full/kz_sources_redis*.o | grep -E ' (SSL|EVP|ERR|BIO|X509)_'; then die "KZ_NO_TLS still wants OpenSSL"; fi

for test in test_vectors test_hash test_external test_text test_generator; do
    "$cc" -std=gnu11 -g -D_GNU_SOURCE -DKZ_API= -I"$source_dir" -I"$root/flat" "$source_dir/tests/$test.c" \
        "$root"/objects/*.o -o "$root/$test" -pthread -lcmocka -ljansson
    KZ_TEST_VECTORS=$source_dir/tests/vectors/ids.json "$root/$test" >"$root/$test.log" 2>&1 || {
        cat "$root/$test.log"
        die "$test fails against the copy"
    }
done
