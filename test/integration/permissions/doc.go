// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package permissions has, in testdata, what every account of Capstan may do,
// as a real API server tells it: of the operators, of a hub and of a member in
// each of their modes, on each cluster that they have accounts on. A change of
// a right is a change of a file that a reviewer sees.
//
// There is a folder for each installation and cluster, and in it a file for
// each subject and namespace: SUBJECT.txt for the namespace of a
// ServiceAccount, SUBJECT@NAMESPACE.txt for others.
package permissions
