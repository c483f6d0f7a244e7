// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig reads untrusted kubeconfigs, such as the one in the Secret
// with which a cluster joins its hub.
//
// Whoever may write the Secret must not make the reader run a program, or send a
// file of its own pod, such as its token, to a server of their choice. So users
// that log in with a plugin are refused, and files are looked up among those that
// came with the kubeconfig only, whatever folder it names.
//
// It does not talk to the server; package probe does.
package kubeconfig
