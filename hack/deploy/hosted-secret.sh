#!/usr/bin/env bash
# Puts a kubeconfig into a secret on the management cluster, in the namespace of
# what is hosted there, which it makes if need be.
#   hosted-secret.sh SECRET VARIABLE NAMESPACE CONTEXT_VARIABLE OPERATOR
# VARIABLE           names the variable that has the file
# NAMESPACE          is called as the Klusterlet or ClusterManager
# CONTEXT_VARIABLE   names the variable that has the context, for messages
# OPERATOR           is who may write into the namespace, klusterlet or cluster-manager
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
secret=${1:?usage: hosted-secret.sh SECRET VARIABLE NAMESPACE CONTEXT_VARIABLE OPERATOR} operator=${5:?} variable=${2:?} file=${!2:-} namespace=${3:?}
require_cluster "management cluster" "${4:?}"
[[ -f $file ]] || fail "there is no file $variable=$file: say where the kubeconfig for the secret $secret is"

umask 077
mkdir -p bin/deploy
work=$(mktemp -d bin/deploy/XXXXXX)
trap 'rm -rf "$work"' EXIT
# With the files that it names, which the management cluster does not have.
"$KUBECTL" --kubeconfig "$file" config view --raw --minify --flatten >"$work/kubeconfig" ||
  fail "$variable=$file is not a kubeconfig with a current context"
server=$("$KUBECTL" --kubeconfig "$work/kubeconfig" config view -o 'jsonpath={.clusters[0].cluster.server}')

say "putting $file (cluster $server) into the secret $namespace/$secret"
k apply --server-side --field-manager=capstan-deploy -f - <<<"{apiVersion: v1, kind: Namespace, metadata: {name: $namespace, labels: {fleet.capstan.io/operated-by: $operator}}}"
k -n "$namespace" create secret generic "$secret" --from-file=kubeconfig="$work/kubeconfig" --dry-run=client -o yaml |
  k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
