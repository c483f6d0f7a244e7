// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package propagation is the hub's controller that sends objects of the hub to
// clusters, as the policies of the Karmada API say.
//
// What is here is how the program is put together: which kinds it knows, what it
// keeps of them, and which controllers run in it. The controllers are in the
// packages below.
package propagation
