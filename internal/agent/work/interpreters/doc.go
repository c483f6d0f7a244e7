// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpreters has the customizations of a hub's users for objects in clusters:
// what of them is the cluster's when they are applied, what of their status is
// reported, and whether they are healthy.
//
// That is for works that bindings made, and for no others. Who writes a ManifestWork
// says in it what is applied and reported, as with OCM; a customization is somebody
// else's, and would change the meaning of a work behind the back of its author.
//
// So a hub is not read before it has sent the first such work, and then only as far
// as its agents may: one without feature gate Propagation lets them read nothing, and
// costs them nothing. Agents in all modes have one InterpreterHub for each hub, however many of
// its clusters they work for.
package interpreters
