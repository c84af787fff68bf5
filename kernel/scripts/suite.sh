#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build HCBS-Test-Suite, the tests of the authors of the public RFC series, as
# static programs for the guest, and print the path of an archive that is loaded
# after the guest's own. The suite is GPL-3.0 and no part of this repository: it
# comes from GitHub, at the commits below, or from clones in $HCBS_SUITE, and its
# crates from crates.io. Exits with 69 (EX_UNAVAILABLE) if one of them can't be
# had. Instead of the files of older interfaces it writes cpu.rt.max, see
# tests/hcbs-suite.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
shim=$here/tests/hcbs-suite/uni.rs
site=https://github.com/Yurand2000
commits='
    HCBS-Test-Suite a32fa1c99e3390f6fff75f37661983a3730a08bf
    hcbs-utils 50d08fea379c508bc3bec7a53fd2dbaf40ee147b
    EVA-rt-Engine af08a3727d76e5e541a17bbaaf7cc7ac68bc7e8e
'
programs='constraints_cgroup_setup regression stress time tools'

say() { echo "suite: $*" >&2; }

unavailable() {
    say "skipped, no source: $*"
    exit 69
}

command -v cargo >/dev/null || unavailable "there is no cargo"
key=$({ cat "$shim" "$0"
    rustc --version
    sha256sum </bin/busybox; } | sha256sum | cut -c1-16)
image=$work/suite-$key.cpio.gz
mkdir -p "$work/locks"
exec 9>"$work/locks/suite-$key"
flock 9
if [ -e "$image" ]; then
    echo "$image"
    exit 0
fi

tree=$work/tree-suite-$key root=$work/suite-$key log=$work/suite-$key.log
rm -rf "$tree" "$root"
mkdir -p "$tree" "$root/bin" "$root/suite" "$root/tmp"
trap 'rm -rf "$tree" "$root"' EXIT
: >"$log"

echo "$commits" | while read -r name commit; do
    [ -n "$name" ] || continue
    git init -q "$tree/$name"
    GIT_TERMINAL_PROMPT=0 timeout 300 git -C "$tree/$name" fetch -q --depth 1 \
        "${HCBS_SUITE:-$site}/$name" "$commit" >>"$log" 2>&1 ||
        unavailable "$name at $commit, see $log"
    git -C "$tree/$name" checkout -q FETCH_HEAD
done

# Names of files: those of version 2 below, or of version 1.
cp "$shim" "$tree/hcbs-utils/src/cgroup/hcbs/uni.rs"
v2=$tree/hcbs-utils/src/cgroup/cgroup_v2.rs
# Version 1 has no controllers to enable.
sed -i '/^    if __is_cpu_contoller_v2_enabled(name)?/i\
    if is_v1() { return Ok(()); }' "$v2"
grep -q is_v1 "$v2"

# Clones instead of what the suite names in Cargo.toml.
engine="patch.'$site/EVA-rt-Engine'.eva-rt-engine.path='$tree/EVA-rt-Engine'"
utils="patch.'$site/hcbs-utils.git'.hcbs-utils.path='$tree/hcbs-utils'"

cargo() {
    # The same programs wherever they are built.
    RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$tree=/suite" \
        CARGO_TARGET_DIR="$tree/target" \
        nice -n "${BUILD_NICE:-10}" env cargo "$@" \
        --manifest-path "$tree/HCBS-Test-Suite/Cargo.toml" \
        --target x86_64-unknown-linux-gnu \
        --config "$engine" --config "$utils" \
        >>"$log" 2>&1
}
cargo fetch || unavailable "its crates, see $log"
bins=
for name in $programs; do
    bins="$bins --bin $name"
done
# shellcheck disable=SC2086
cargo build --offline --release -j "${JOBS:-$(nproc)}" $bins || {
    tail -n 20 "$log" >&2
    say "cargo failed, see $log"
    exit 1
}
for name in $programs; do
    strip -o "$root/suite/$name" \
        "$tree/target/x86_64-unknown-linux-gnu/release/$name"
done

cp /bin/busybox "$root/bin/"
ln -s busybox "$root/bin/sh"
find "$root" -exec touch -h -d @0 {} +
(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet \
    --reproducible | gzip -n) >"$image.new"
mv "$image.new" "$image"
echo "$image"
