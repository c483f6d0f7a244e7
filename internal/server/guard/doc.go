// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard lets HTTP requests through whose bearer token belongs to a user
// that may do what they ask for: those for metrics, and those of people who ask
// a component what it knows.
//
// Who asks is found out with a TokenReview and whether it may with a
// SubjectAccessReview, both with client-go alone: linking the API server's
// libraries for it would double the size of an agent. What a request asks for is
// the server's to say.
package guard
