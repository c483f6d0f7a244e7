// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs Capstan as its users do: on real clusters with real pods,
// installed by the make targets of docs/install.md.
//
// It needs root on Linux, and what `make test-e2e` builds before: the lab and
// the image. The clusters are made for the run and removed after it. With
// E2E_DIR the lab is kept in that directory and used again by the next run.
package e2e
