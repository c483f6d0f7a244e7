// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rotation decides how far the rotation of an authority or of keys is. It
// is pure: it has no client and no clock.
//
// A stage is written down before anything is done for it, and what is done for it
// can be done again. So a rotation goes on where it was, whatever fails between. A
// stage ends when all that verify, or have something signed, are seen to be as the
// stage wants them; only what nobody can see is left a time.
package rotation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// Names of what is rotated: those of the fields of the spec.
const (
	EtcdAuthority       = "etcdAuthority"
	FrontProxyAuthority = "frontProxyAuthority"
	ClientAuthority     = "clientAuthority"
	ServiceAccountKeys  = "serviceAccountKeys"
	EncryptionKeys      = "encryptionKeys"
	ServingAuthority    = "servingAuthority"
)

// Stages and their order.
const (
	Trust    = fleetv1alpha1.RotationTrust
	Sign     = fleetv1alpha1.RotationSign
	Rewrite  = fleetv1alpha1.RotationRewrite
	Wait     = fleetv1alpha1.RotationWait
	Drop     = fleetv1alpha1.RotationDrop
	Complete = fleetv1alpha1.RotationComplete
)

const (
	// ClientGrace is the default time for clients to renew their certificates: a day
	// longer than the longest one that the controller manager signs.
	ClientGrace = 366 * 24 * time.Hour
	// TokenGrace is the default time for clients to renew their tokens: a day longer
	// than those of Capstan's components are valid.
	TokenGrace = 8 * 24 * time.Hour
	// ServingSettle is the time for programs on the host to read the kubeconfig with
	// another authority: the operator of the hub has to see it, and to restart them.
	ServingSettle = 5 * time.Minute
)

// State is how far a rotation is.
type State = fleetv1alpha1.ControlPlaneRotationStatus

// Subject is something that can be rotated.
type Subject struct {
	Name string
	// Token is the one that the spec asks for; empty if it asks for nothing.
	Token string
	// Stages that a rotation goes through before it is complete.
	Stages []fleetv1alpha1.RotationStage
	// Grace is how long stage Wait takes, and Settle how long stage Trust does at
	// least.
	Grace, Settle time.Duration
}

// Subjects returns what can be rotated, in the order in which it is.
func Subjects(spec fleetv1alpha1.ControlPlaneRotation) []Subject {
	return []Subject{
		{Name: EtcdAuthority, Token: spec.EtcdAuthority, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Drop}},
		{Name: FrontProxyAuthority, Token: spec.FrontProxyAuthority, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Drop}},
		{
			Name: ClientAuthority, Token: spec.ClientAuthority, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Wait, Drop},
			Grace: graceOrDefault(spec.ClientAuthorityGrace, ClientGrace),
		},
		{
			Name: ServiceAccountKeys, Token: spec.ServiceAccountKeys, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Rewrite, Wait, Drop},
			Grace: graceOrDefault(spec.ServiceAccountKeysGrace, TokenGrace),
		},
		{Name: EncryptionKeys, Token: spec.EncryptionKeys, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Rewrite, Drop}},
		// The last one, as it waits for others before it does anything.
		{
			Name: ServingAuthority, Token: spec.ServingAuthority, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Drop},
			Settle: ServingSettle,
		},
	}
}

func graceOrDefault(given *metav1.Duration, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return max(given.Duration, 0)
}

// StageFacts are what a walk has found out about the rotation that is under way.
type StageFacts struct {
	// Lost tells that what the rotation has made is gone, so that it has to begin anew.
	Lost bool
	// Left says what its stage still waits for; empty if that is as the stage wants it.
	Left string
	// Others tells that it waits for others, who take minutes.
	Others bool
}

// ActiveRotation returns the rotation that is under way; nil if there is none. One that
// waits for others is not: nothing is done for it.
func ActiveRotation(states []State) *State {
	for n := range states {
		if stage := states[n].Stage; stage != Wait && stage != Complete {
			return &states[n]
		}
	}
	return nil
}

// FindRotation returns the latest rotation of a subject; nil if there was none.
func FindRotation(states []State, name string) *State {
	if n := slices.IndexFunc(states, func(s State) bool { return s.Name == name }); n >= 0 {
		return &states[n]
	}
	return nil
}

// InitialRotations are the rotations of a control plane that has just been made: what the
// tokens ask for is new already.
func InitialRotations(now time.Time, subjects []Subject, states []State) []State {
	next := slices.Clone(states)
	for _, s := range subjects {
		if s.Token != "" && FindRotation(next, s.Name) == nil {
			next = replaceState(next, enterStage(State{Name: s.Name, Token: s.Token}, Complete, now))
		}
	}
	return next
}

// AdvanceRotations returns how far the rotations are. The facts are those of the active one.
func AdvanceRotations(now time.Time, subjects []Subject, states []State, facts StageFacts) []State {
	if active := ActiveRotation(states); active != nil {
		return replaceState(states, advanceStage(now, subjectNamed(subjects, active.Name), *active, facts))
	}
	for _, s := range subjects {
		if state := FindRotation(states, s.Name); state != nil && state.Stage == Wait && !now.Before(WaitEndTime(s, *state)) {
			return replaceState(states, enterStage(*state, stageAfter(s, Wait), now))
		}
	}
	for _, s := range subjects {
		state := FindRotation(states, s.Name)
		if s.Token != "" && (state == nil || state.Stage == Complete && state.Token != s.Token) {
			return replaceState(states, enterStage(State{Name: s.Name, Token: s.Token}, s.Stages[0], now))
		}
	}
	return refreshWaitMessages(subjects, states)
}

// NextWaitEndTime is when the next rotation has waited long enough; zero if none waits.
func NextWaitEndTime(subjects []Subject, states []State) time.Time {
	var due time.Time
	for _, s := range subjects {
		if state := FindRotation(states, s.Name); state != nil && state.Stage == Wait {
			if end := WaitEndTime(s, *state); due.IsZero() || end.Before(due) {
				due = end
			}
		}
	}
	return due
}

// WaitEndTime is when a rotation that waits has waited long enough.
func WaitEndTime(s Subject, state State) time.Time { return state.Since.Add(s.Grace) }

// advanceStage moves the active rotation on by one stage at most.
func advanceStage(now time.Time, s Subject, state State, facts StageFacts) State {
	switch {
	case facts.Lost:
		return enterStage(state, s.Stages[0], now)
	case facts.Left != "":
		state.Message = facts.Left
		return state
	case state.Stage == Trust && now.Before(state.Since.Add(s.Settle)):
		state.Message = fmt.Sprintf("waiting until %s for the hub's programs on the host to restart with the new one",
			state.Since.Add(s.Settle).UTC().Format(time.RFC3339))
		return state
	default:
		state = enterStage(state, stageAfter(s, state.Stage), now)
		if state.Stage == Wait {
			state.Message = waitMessage(s, state)
		}
		return state
	}
}

// refreshWaitMessages says of the rotations that wait until when they do: the spec may have
// changed that.
func refreshWaitMessages(subjects []Subject, states []State) []State {
	next := slices.Clone(states)
	for _, s := range subjects {
		if state := FindRotation(next, s.Name); state != nil && state.Stage == Wait {
			state.Message = waitMessage(s, *state)
		}
	}
	return next
}

func waitMessage(s Subject, state State) string {
	return fmt.Sprintf("the old one is trusted until %s, for clients that have not renewed what it signed; spec.rotation.%sGrace sets how long",
		WaitEndTime(s, state).UTC().Format(time.RFC3339), s.Name)
}

func enterStage(state State, stage fleetv1alpha1.RotationStage, now time.Time) State {
	state.Stage, state.Since, state.Message = stage, metav1.NewTime(now.Truncate(time.Second)), ""
	return state
}

// stageAfter returns the stage that follows.
func stageAfter(s Subject, stage fleetv1alpha1.RotationStage) fleetv1alpha1.RotationStage {
	if n := slices.Index(s.Stages, stage) + 1; n < len(s.Stages) {
		return s.Stages[n]
	}
	return Complete
}

func subjectNamed(subjects []Subject, name string) Subject {
	for _, s := range subjects {
		if s.Name == name {
			return s
		}
	}
	return Subject{Name: name, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Drop}}
}

// replaceState returns the states with this one of its name, sorted.
func replaceState(states []State, state State) []State {
	next := slices.DeleteFunc(slices.Clone(states), func(s State) bool { return s.Name == state.Name })
	next = append(next, state)
	slices.SortFunc(next, func(a, b State) int { return cmp.Compare(a.Name, b.Name) })
	return next
}
