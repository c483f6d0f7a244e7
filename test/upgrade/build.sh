#!/usr/bin/env bash
# Builds the programs of each release that releases.txt names. They are built once, and
# kept in the user's cache under version and commit. bin/released/VERSION leads to them:
# the files of the release with a bin/ of their own, in which are capstan, the image
# quay.io/capstan-io/capstan-released:VERSION, and bundles of OLM that name it.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/capstan/releases
flags=${GOFLAGS:--trimpath} # those of this tree's make, to share what it has compiled
new=
trap 'rm -rf "$new"' EXIT
mkdir -p "$cache" bin/released
exec 9>"$cache/lock"
flock 9

while read -r version commit; do
  [[ $version == v* ]] || continue
  if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "release $version is commit $commit, which this clone lacks: run 'git fetch --unshallow', or 'git fetch origin $commit' if it has a history" >&2
    exit 1
  fi
  tagged=$(git rev-parse --quiet --verify "refs/tags/$version^{commit}" || echo "$commit")
  if [[ $tagged != "$commit" ]]; then
    echo "release $version is commit $commit in test/upgrade/releases.txt, but its tag is on $tagged: one of them is wrong" >&2
    exit 1
  fi
  made=$cache/$version-$commit
  if [[ ! -e $made ]]; then
    new=$(mktemp -d "$cache/new.XXXX")
    git archive "$commit" | tar -x -C "$new"
    number=${version#v}
    image=quay.io/capstan-io/capstan-released:$number
    env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory -C "$new" VERSION="$number" GOFLAGS="$flags" IMAGE_NAME="$image" image
    env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory -C "$new" VERSION="$number" GOFLAGS="$flags" BUNDLE_IMAGE="$image" BUNDLE_REPLACES= BUNDLE_DIR="bin/bundles/$number" bundle
    mv -T "$new" "$made"
    new=
  fi
  ln -sfn "$made" "bin/released/$version"
done <test/upgrade/releases.txt
