# SPDX-License-Identifier: Apache-2.0
# Functions for the scripts beside this file: the Debian archive, through an
# apt configuration of its own, so that the machine's is neither used for what
# it lacks nor changed. Sourced, after $work is set.

# The mirror that this machine uses, unless DEBIAN_MIRROR names another one.
debian_mirror() {
    # The format is apt's.
    # shellcheck disable=SC2016
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
        'Origin: Debian' 'Identifier: Packages' | grep -v security | head -n 1)}
    [ -n "$mirror" ] || {
        echo "no Debian mirror: run apt-get update, or set DEBIAN_MIRROR" >&2
        return 1
    }
    echo "$mirror"
}

# debian_apt DIRECTORY MIRROR SUITE...: make apt's directories there and its
# list of sources, and set apt_options to what makes apt use them: words without
# blanks.
debian_apt() {
    apt=$1 from=$2
    shift 2
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    trust=signed-by=/usr/share/keyrings/debian-archive-keyring.gpg
    # A directory of this machine: who wrote it could have written this script.
    case $from in file:*) trust=trusted=yes ;; esac
    for suite_of_apt in "$@"; do
        echo "deb [$trust] $from $suite_of_apt main"
    done >"$apt/sources.list"
    apt_options="-qq -o Dir::Etc::sourcelist=$apt/sources.list
        -o Dir::Etc::sourceparts=- -o Dir::State::lists=$apt/lists
        -o Dir::Cache=$apt -o APT::Sandbox::User=root"
}

# debian_download SUITE PACKAGE VERSION SHA256 DIRECTORY: fetch one package,
# check it and print where it is. SHA256 "any" takes what the archive's signed
# lists say. Returns 69 (EX_UNAVAILABLE) where the archive cannot be reached, or
# has another version.
debian_download() {
    mkdir -p "$5"
    for deb in "$5/$2_"*.deb; do
        if echo "$4  $deb" | sha256sum --check --status 2>/dev/null; then
            echo "$deb"
            return
        fi
        rm -f "$deb"
    done
    mirror=$(debian_mirror) || return 69
    debian_apt "$work/apt-$1" "$mirror" "$1"
    # shellcheck disable=SC2086
    apt-get $apt_options update >&2 || return 69
    # shellcheck disable=SC2086
    (cd "$5" && apt-get $apt_options download "$2=$3") >&2 || return 69
    deb=$(ls "$5/$2_"*.deb)
    [ "$4" = any ] || echo "$4  $deb" | sha256sum --check --status || {
        echo "$deb does not have the hash $4" >&2
        return 1
    }
    echo "$deb"
}
