// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handshake bounds what a server of others costs its client until both have agreed on TLS, and what stays of that
// for as long as a connection is open. A library of TLS decodes whatever certificates it is shown, of which two bytes
// become hundreds, and verifies them in any order, before it asks what its caller takes.
//
// It decides neither which server to connect to nor what to trust.
package handshake
