# SPDX-License-Identifier: Apache-2.0
# Functions for the scripts beside this file that compile. Sourced, after $work
# is set.

# compiler DIRECTORY: set cc to the compiler, through ccache if that is there.
# Paths below DIRECTORY make no difference to it.
compiler() {
    cc=gcc
    if command -v ccache >/dev/null; then
        cc="ccache gcc"
        export CCACHE_DIR="$work/ccache" CCACHE_BASEDIR="$1" \
            CCACHE_MAXSIZE=12G
    fi
}

# What a build is to say of itself, so that it is the same wherever it is made.
anonymous_build() {
    export KBUILD_BUILD_TIMESTAMP='2026-01-01' KBUILD_BUILD_USER=nova-rt \
        KBUILD_BUILD_HOST=nova-rt
}

# check_configuration CONFIG FRAGMENT...: fail if Kconfig dropped a line. What a
# later fragment says again is the later one's.
check_configuration() {
    config=$1
    shift
    sed -n 's/^\(# \)\{0,1\}\(CONFIG_[A-Z0-9_]*\)[= ].*/\2/p' "$@" |
        sort -u | while read -r option; do
        line=$(grep -hE "^(# )?$option[= ]" "$@" | tail -n 1)
        case $line in
            '') false ;;
            '#'*) ! grep -q "^$option=" "$config" ;;
            *) grep -qxF "$line" "$config" ;;
        esac || {
            echo "build: '$line' is not in the configuration" >&2
            exit 1
        }
    done
}
