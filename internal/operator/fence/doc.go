// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fence restricts the operators' accounts where RBAC cannot: RBAC does
// not limit the creation of Secrets to certain types, or of Deployments to
// certain ServiceAccounts, so a stolen token of an operator could be used to
// obtain the token of any ServiceAccount.
//
// A fence is a ValidatingAdmissionPolicy with its binding. It comes with the
// manifests of the operator; where these cannot have it, the operator makes it
// itself. It may read it then, but neither change nor delete it: who can move a
// fence has none. So the name has a version, and another fence another name.
//
// It is not a replacement for RBAC: it bars writes only, and only those that need
// not be possible for an operator to do its work. Webhook configurations are
// not among them, as Kubernetes asks no policy about those.
package fence
