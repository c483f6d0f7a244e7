// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package follow keeps an agent informed of single objects, and says how often
// it may ask for what it waits for.
//
// It is for what an agent has to know before its caches may start: the
// credentials at home, the certificate signing request, and whether the hub
// accepts the cluster.
package follow
