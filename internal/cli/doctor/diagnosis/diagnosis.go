// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnosis finds what is wrong with a hub, a cluster and the objects
// delivered to it, and what to do.
//
// It follows the story of a cluster: the hub is there, a cluster asks to join,
// is let in, is heard of, and gets what was declared for it. The first step that
// is broken is the one to mend: those after it may be broken for its sake. The
// package decides only: it has no client and no clock.
package diagnosis

import (
	"errors"
	"slices"

	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// State is how a step is.
type State string

// The states.
const (
	// OK: all that could be seen is as it should be.
	OK State = "OK"
	// Broken: something has to be mended.
	Broken State = "Broken"
	// Odd: it works, but somebody should look at it.
	Odd State = "Odd"
	// Unseen: it could not be looked at.
	Unseen State = "Unseen"
)

// Finding is something that is not as it should be.
type Finding struct {
	// State is Broken, Odd or Unseen.
	State State `json:"state"`
	// Reason is one word for programs.
	Reason string `json:"reason"`
	// Object is what it is about, such as "Secret kube-system/x".
	Object string `json:"object,omitempty"`
	// Cause is a sentence about what is wrong.
	Cause string `json:"cause"`
	// Next is what to do about it.
	Next string `json:"next,omitempty"`
}

// Step is a step of the story with what was found there.
type Step struct {
	// Name is for programs, such as "hub/webhooks".
	Name string `json:"name"`
	// Title is what is so if the step is in order.
	Title string `json:"title"`
	State State  `json:"state"`
	// Findings are the reasons for the state; none if it is OK.
	Findings []Finding `json:"findings,omitempty"`
}

// The places that steps are about; each begins the names of its steps.
const (
	OnHub     = "hub"
	OnCluster = "cluster"
	OnMember  = "member"
)

// stepCheck looks at one step.
type stepCheck struct {
	place, name, title string
	// concerns reports whether the step is part of the story at all; nil is always.
	concerns func(*evidence.Evidence) bool
	look     func(*evidence.Evidence) []Finding
}

func (c stepCheck) evaluateStep(e *evidence.Evidence) Step {
	s := Step{Name: c.place + "/" + c.name, Title: c.title, State: OK, Findings: c.look(e)}
	for _, state := range []State{Broken, Odd, Unseen} {
		if slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.State == state }) {
			s.State = state
			break
		}
	}
	return s
}

func evaluateChecks(checks []stepCheck, e *evidence.Evidence) []Step {
	var all []Step
	for _, c := range checks {
		if c.concerns == nil || c.concerns(e) {
			all = append(all, c.evaluateStep(e))
		}
	}
	return all
}

// DiagnoseHub returns the steps of the hub alone.
func DiagnoseHub(e *evidence.Evidence) []Step { return evaluateChecks(hubChecks(), e) }

// DiagnoseCluster returns the steps of a cluster, in the order of the story, on the hub
// and on the member.
func DiagnoseCluster(e *evidence.Evidence) []Step { return evaluateChecks(clusterChecks(), e) }

// DiagnoseClusterFromLists returns the steps of a cluster that need nothing but what was read for
// all clusters at once.
func DiagnoseClusterFromLists(e *evidence.Evidence) []Step {
	return evaluateChecks(slices.DeleteFunc(clusterChecks(), func(c stepCheck) bool { return !slices.Contains(listBasedChecks(), c.name) }), e)
}

// FindRootCause returns the first finding that is broken, with its step.
func FindRootCause(steps []Step) (step Step, finding Finding, broken bool) {
	for _, s := range steps {
		for _, f := range s.Findings {
			if f.State == Broken {
				return s, f, true
			}
		}
	}
	return Step{}, Finding{}, false
}

func brokenFinding(reason, object, cause, next string) Finding {
	return Finding{State: Broken, Reason: reason, Object: object, Cause: cause, Next: next}
}

func oddFinding(reason, object, cause, next string) Finding {
	return Finding{State: Odd, Reason: reason, Object: object, Cause: cause, Next: next}
}

// FindBlindSpot returns the first finding that keeps the diagnosis from meaning anything:
// that the hub, the cluster or the member could not be looked at.
func FindBlindSpot(steps []Step) (step Step, finding Finding, blind bool) {
	for _, s := range steps {
		if s.State == Unseen && slices.Contains([]string{OnHub + "/kinds", OnCluster + "/known", OnMember + "/api"}, s.Name) {
			return s, s.Findings[0], true
		}
	}
	return Step{}, Finding{}, false
}

// unseenFinding is for what could not be read. That is said, and nothing is guessed.
func unseenFinding(what string, err error) Finding {
	f := Finding{State: Unseen, Reason: "CannotBeRead", Object: what, Cause: "it could not be read: " + err.Error()}
	if known := (*exit.Error)(nil); errors.As(err, &known) && known.Next != "" {
		f.Next = known.Next
	}
	return f
}
