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
			Grace: grace(spec.ClientAuthorityGrace, ClientGrace),
		},
		{
			Name: ServiceAccountKeys, Token: spec.ServiceAccountKeys, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Rewrite, Wait, Drop},
			Grace: grace(spec.ServiceAccountKeysGrace, TokenGrace),
		},
		{Name: EncryptionKeys, Token: spec.EncryptionKeys, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Rewrite, Drop}},
		// The last one, as it waits for others before it does anything.
		{
			Name: ServingAuthority, Token: spec.ServingAuthority, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Drop},
			Settle: ServingSettle,
		},
	}
}

func grace(given *metav1.Duration, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return max(given.Duration, 0)
}

// Facts are what a walk has found out about the rotation that is under way.
type Facts struct {
	// Lost tells that what the rotation has made is gone, so that it has to begin anew.
	Lost bool
	// Left says what its stage still waits for; empty if that is as the stage wants it.
	Left string
	// Others tells that it waits for others, who take minutes.
	Others bool
}

// Active returns the rotation that is under way; nil if there is none. One that
// waits for others is not: nothing is done for it.
func Active(states []State) *State {
	for n := range states {
		if stage := states[n].Stage; stage != Wait && stage != Complete {
			return &states[n]
		}
	}
	return nil
}

// Find returns the latest rotation of a subject; nil if there was none.
func Find(states []State, name string) *State {
	if n := slices.IndexFunc(states, func(s State) bool { return s.Name == name }); n >= 0 {
		return &states[n]
	}
	return nil
}

// New are the rotations of a control plane that has just been made: what the
// tokens ask for is new already.
func New(now time.Time, subjects []Subject, states []State) []State {
	next := slices.Clone(states)
	for _, s := range subjects {
		if s.Token != "" && Find(next, s.Name) == nil {
			next = put(next, enter(State{Name: s.Name, Token: s.Token}, Complete, now))
		}
	}
	return next
}

// Decide returns how far the rotations are. The facts are those of the active one.
func Decide(now time.Time, subjects []Subject, states []State, facts Facts) []State {
	if active := Active(states); active != nil {
		return put(states, advance(now, subjectOf(subjects, active.Name), *active, facts))
	}
	for _, s := range subjects {
		if state := Find(states, s.Name); state != nil && state.Stage == Wait && !now.Before(End(s, *state)) {
			return put(states, enter(*state, after(s, Wait), now))
		}
	}
	for _, s := range subjects {
		state := Find(states, s.Name)
		if s.Token != "" && (state == nil || state.Stage == Complete && state.Token != s.Token) {
			return put(states, enter(State{Name: s.Name, Token: s.Token}, s.Stages[0], now))
		}
	}
	return messages(subjects, states)
}

// Due is when the next rotation has waited long enough; zero if none waits.
func Due(subjects []Subject, states []State) time.Time {
	var due time.Time
	for _, s := range subjects {
		if state := Find(states, s.Name); state != nil && state.Stage == Wait {
			if end := End(s, *state); due.IsZero() || end.Before(due) {
				due = end
			}
		}
	}
	return due
}

// End is when a rotation that waits has waited long enough.
func End(s Subject, state State) time.Time { return state.Since.Add(s.Grace) }

// advance moves the active rotation on by one stage at most.
func advance(now time.Time, s Subject, state State, facts Facts) State {
	switch {
	case facts.Lost:
		return enter(state, s.Stages[0], now)
	case facts.Left != "":
		state.Message = facts.Left
		return state
	case state.Stage == Trust && now.Before(state.Since.Add(s.Settle)):
		state.Message = fmt.Sprintf("waiting until %s for the hub's programs on the host to restart with the new one",
			state.Since.Add(s.Settle).UTC().Format(time.RFC3339))
		return state
	default:
		state = enter(state, after(s, state.Stage), now)
		if state.Stage == Wait {
			state.Message = waiting(s, state)
		}
		return state
	}
}

// messages says of the rotations that wait until when they do: the spec may have
// changed that.
func messages(subjects []Subject, states []State) []State {
	next := slices.Clone(states)
	for _, s := range subjects {
		if state := Find(next, s.Name); state != nil && state.Stage == Wait {
			state.Message = waiting(s, *state)
		}
	}
	return next
}

func waiting(s Subject, state State) string {
	return fmt.Sprintf("the old one is trusted until %s, for whoever has not renewed what it has signed; spec.rotation.%sGrace says how long",
		End(s, state).UTC().Format(time.RFC3339), s.Name)
}

func enter(state State, stage fleetv1alpha1.RotationStage, now time.Time) State {
	state.Stage, state.Since, state.Message = stage, metav1.NewTime(now.Truncate(time.Second)), ""
	return state
}

// after returns the stage that follows.
func after(s Subject, stage fleetv1alpha1.RotationStage) fleetv1alpha1.RotationStage {
	if n := slices.Index(s.Stages, stage) + 1; n < len(s.Stages) {
		return s.Stages[n]
	}
	return Complete
}

func subjectOf(subjects []Subject, name string) Subject {
	for _, s := range subjects {
		if s.Name == name {
			return s
		}
	}
	return Subject{Name: name, Stages: []fleetv1alpha1.RotationStage{Trust, Sign, Drop}}
}

// put returns the states with this one of its name, sorted.
func put(states []State, state State) []State {
	next := slices.DeleteFunc(slices.Clone(states), func(s State) bool { return s.Name == state.Name })
	next = append(next, state)
	slices.SortFunc(next, func(a, b State) int { return cmp.Compare(a.Name, b.Name) })
	return next
}
