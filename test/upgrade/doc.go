// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade has the tests of what a release leaves to the versions after it.
//
// testdata has the objects that each release of releases.txt stored, as they are in
// etcd. An API server with the definitions of the release wrote them, from the
// manifests in testdata/inputs; `make store-release-objects` does so once for each
// release.
package upgrade
