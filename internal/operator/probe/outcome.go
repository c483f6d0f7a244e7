// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

// Verdict is what became of a check of one credential.
type Verdict string

// The verdicts, in the order in which a check can fail. The first group is
// seen in the secret alone, the second by asking the hub.
const (
	// Unchecked: nothing is known yet.
	Unchecked Verdict = ""

	SecretMissing       Verdict = "SecretMissing"
	KubeconfigMissing   Verdict = "KubeconfigMissing"
	KubeconfigMalformed Verdict = "KubeconfigMalformed"
	ClusterNameMissing  Verdict = "ClusterNameMissing"

	Unreachable  Verdict = "Unreachable"
	Untrusted    Verdict = "Untrusted"
	Unauthorized Verdict = "Unauthorized"
	Forbidden    Verdict = "Forbidden"
	Functional   Verdict = "Functional"
)

// requiresServer reports whether the hub had to be asked for the verdict.
func (v Verdict) requiresServer() bool {
	switch v {
	case Unreachable, Untrusted, Unauthorized, Forbidden, Functional:
		return true
	default:
		return false
	}
}

// IsGone reports whether nobody may ever be able to do anything there again: nothing
// leads to the server, or it does not answer. A credential that it refuses can
// be mended.
func (v Verdict) IsGone() bool {
	switch v {
	case Unreachable, SecretMissing, KubeconfigMissing:
		return true
	default:
		return false
	}
}

// CheckOutcome is the result of the check of one credential.
type CheckOutcome struct {
	Verdict Verdict
	// Message says what was seen, for people. It is the same for the same failure.
	Message string
}

// CurrentOutcome returns what is known of a credential now: what its secret says, or
// else the last answer of the hub. An answer that is about an earlier, unusable
// secret is dropped.
func CurrentOutcome(credential Credential, last CheckOutcome) CheckOutcome {
	if credential.Problem.Verdict != Unchecked {
		return credential.Problem
	}
	if !last.Verdict.requiresServer() {
		return CheckOutcome{}
	}
	return last
}
