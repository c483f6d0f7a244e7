// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

func TestNameOf(t *testing.T) {
	cases := map[string]struct{ wanted, entry, want string }{
		"the user's":           {"a", "b", "a"},
		"that of the cluster":  {"", "edge-1", "edge-1"},
		"made a label":         {"", "Admin@kind_Edge.1", "admin-kind-edge-1"},
		"an ARN":               {"", "arn:aws:eks:eu-west-1:123:cluster/Prod", "arn-aws-eks-eu-west-1-123-cluster-prod"},
		"shortened":            {"", strings.Repeat("x", 62) + ".yz", strings.Repeat("x", 62)},
		"dashes at both ends":  {"", "_x_", "x"},
		"nothing that is left": {"", "___", ""},
		"nothing at all":       {"", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := memberName(c.wanted, c.entry)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestCheckMember(t *testing.T) {
	wanted := membership{klusterlet: "klusterlet", cluster: "edge", hub: "https://hub:6443"}
	change := func(by func(*membership)) []membership {
		m := wanted
		by(&m)
		return []membership{m}
	}
	cases := map[string]struct {
		reason  string
		members []membership
		want    string
	}{
		"no member":                   {},
		"this member":                 {reason: "the command was interrupted", members: []membership{wanted}},
		"this member without its hub": {reason: "it was interrupted even earlier", members: change(func(m *membership) { m.hub = "" })},
		"of another hub":              {members: change(func(m *membership) { m.hub = "https://other:6443" }), want: "of the hub at https://other:6443"},
		"under another name":          {members: change(func(m *membership) { m.cluster = "prod" }), want: `already a member: "prod"`},
		"by another Klusterlet":       {members: change(func(m *membership) { m.klusterlet = "mine" }), want: `Klusterlet "mine"`},
		"that is leaving":             {members: change(func(m *membership) { m.deleting = true }), want: "about to leave"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkMember(c.members, wanted)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.reason, err, c.want)
			}
		})
	}
}

func TestJoinState(t *testing.T) {
	cases := map[string]struct {
		status   metav1.ConditionStatus
		reason   string
		observed int64
		joined   bool
		hopeless bool
		why      string
	}{
		"joined":              {status: metav1.ConditionTrue, reason: operatorv1.JoinReasonJoined, observed: 2, joined: true},
		"joined before":       {status: metav1.ConditionTrue, reason: operatorv1.JoinReasonJoined, observed: 1, why: "has not started"},
		"waits for the admin": {status: metav1.ConditionFalse, reason: operatorv1.JoinReasonWaitingForCSRApproval, observed: 2, why: "capstan accept edge"},
		"denied":              {status: metav1.ConditionFalse, reason: operatorv1.JoinReasonCSRDenied, observed: 2, hopeless: true, why: "CSRDenied: told"},
		"no pod yet":          {status: metav1.ConditionFalse, reason: operatorv1.JoinReasonAgentNotRunning, observed: 2, why: "AgentNotRunning: told"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			agent := &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			agent.Status.Conditions = []metav1.Condition{{
				Type: operatorv1.KlusterletJoined, Status: c.status, Reason: c.reason, Message: "told", ObservedGeneration: c.observed,
			}}
			joined, why, hopeless := joinState(agent, "edge")
			if joined != c.joined || hopeless != c.hopeless || !strings.Contains(why, c.why) {
				t.Errorf("got %t, %q, %t", joined, why, hopeless)
			}
		})
	}
}
