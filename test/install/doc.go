// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install tests each way to install Capstan on real clusters, with the
// commands of docs/install.md: from nothing to a delivered work, and back to
// nothing. Run it with `make test-install`.
package install
