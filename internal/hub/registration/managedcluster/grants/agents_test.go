// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

func TestAgents(t *testing.T) {
	const group, aws = "Group system:open-cluster-management:east", "Group open-cluster-management:east"
	const one, two = "User system:open-cluster-management:east:one", "User system:open-cluster-management:east:two"
	born := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cases := map[string]struct {
		reason string
		agents policy.AgentNames
		want   []string
		found  policy.AgentNames // in a binding of these subjects
	}{
		"nobody is noted":    {reason: "a new cluster has no agent yet", want: []string{aws}},
		"two are":            {reason: "each by its name", agents: "one,two", want: []string{one, two, aws}, found: "one,two"},
		"it is not known":    {reason: "those of an earlier release keep their rights", agents: policy.AnyAgent, want: []string{group, aws}, found: policy.AnyAgent},
		"some are":           {reason: "the names are bound as well, so that nothing changes for them when * is removed", agents: "one,*", want: []string{group, one, aws}, found: "*,one"},
		"names of no agents": {reason: "somebody wrote them", agents: "one,a:b,", want: []string{one, aws}, found: "one"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			subjects := AgentSubjects("east", tc.agents)
			var got []string
			for _, s := range subjects {
				got = append(got, s.Kind+" "+s.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", CreationTimestamp: born}}
			binding := ClusterRoleBinding("east", append(subjects, rbacv1.Subject{Kind: "User", Name: "jane"})...)
			binding.CreationTimestamp = born
			if found := KnownAgents(mc, binding); found != tc.found {
				t.Errorf("%s: the binding names the agents %q, want %q", tc.reason, found, tc.found)
			}
			binding.CreationTimestamp = metav1.NewTime(born.Add(-time.Second))
			if found := KnownAgents(mc, binding); found != "" {
				t.Errorf("the binding of an earlier cluster names the agents %q", found)
			}
		})
	}
}

func TestAgentsAreKnownByAnnotationAndBinding(t *testing.T) {
	born := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	const another = "another"
	cases := map[string]struct {
		reason   string
		noted    policy.AgentNames // in the annotation
		bound    policy.AgentNames // in the binding
		boundFor string            // the UID in the binding
		older    bool              // the binding is
		want     policy.AgentNames
	}{
		"both agree":                      {noted: "one", bound: "one", boundFor: "uid", want: "one"},
		"one more is noted":               {reason: "it is bound next", noted: "one,two", bound: "one", boundFor: "uid", want: "one,two"},
		"an earlier release noted some":   {reason: "it noted none that a person approved", noted: "one", bound: "*", want: "one,*"},
		"an earlier release noted nobody": {bound: "*", want: "*"},
		"somebody removed the *":          {reason: "that is how it ends", noted: "one", bound: "*,one", boundFor: "uid", want: "one"},
		"somebody removed the annotation": {bound: "*,one", boundFor: "uid", want: "*,one"},
		"an older binding was reused":     {reason: "it names the agents all the same", bound: "one", boundFor: "uid", older: true, want: "one"},
		"an older binding":                {reason: "it is of an earlier cluster", noted: "one", bound: "*", older: true, want: "one"},
		"the binding of another cluster":  {bound: "two", boundFor: another, want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "uid", CreationTimestamp: born}}
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationAgents, string(tc.noted))
			binding := BindAgents(mc, AgentSubjects("east", tc.bound)...)
			binding.CreationTimestamp = born
			if tc.older {
				binding.CreationTimestamp = metav1.NewTime(born.Add(-time.Second))
			}
			binding.Annotations[annotationManagedCluster] = tc.boundFor
			if got := KnownAgents(mc, binding); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
