// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instance creates and deletes the object that an operator works for,
// such as a Klusterlet, for a package manager that can do neither itself. Helm
// reads the definitions of all kinds before it installs any, so it cannot bring
// an object together with its definition; and it deletes an operator without
// waiting until that has cleaned up.
//
// It waits, and says what for. It does not decide what is in the object, and it
// never deletes a definition of which there are objects.
package instance
