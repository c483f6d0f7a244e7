// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dependencies sends along what the objects of bindings need beside them,
// such as the ConfigMaps and Secrets of a Deployment, to the same clusters.
//
// It has two controllers. Referrers says of each binding, in an annotation, what
// its object needs. Attached keeps a binding for each object that somebody needs,
// which says who does and where. Only objects of the same namespace are sent
// along: who may write a Deployment may not read in other namespaces through it.
package dependencies
