// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render builds the objects that the operators install, and applies
// them.
//
// Building is pure: a Workload and the functions of objects.go return client-go
// apply configurations, so what an operator would do can be printed and
// compared without a cluster. Applying (Applier) is the only part that talks to
// a server: in order, by server-side apply, leaving alone what is already as
// wanted.
//
// It is not a template engine: what is the same for all components stands here
// and what differs is a field.
package render
