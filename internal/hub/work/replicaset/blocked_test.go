// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// A cluster whose work somebody else is in the way of counts as failed: it does
// not take the place of others, and holds nobody up beyond maxFailures.
func TestAClusterThatIsBlockedHoldsUpNobody(t *testing.T) {
	stranger := types.NamespacedName{Namespace: "a", Name: "web-00000"}
	oneMayFail := rollout.Strategy{Kind: rollout.Progressive, MaxConcurrency: intstr.FromInt32(1), MaxFailures: intstr.FromInt32(1)}
	f := planFacts{
		Choices: []choice{chosen("p", oneMayFail, []string{"a", "b"})}, Template: "new", Now: at(1000).Time,
		Joined: map[string]bool{"a": true, "b": true}, Strangers: map[string]types.NamespacedName{"a": stranger},
	}
	p := planWrites(f)
	if diff := cmp.Diff(outline{Create: []string{"b for p"}}, outlineOf(p)); diff != "" {
		t.Errorf("b gets its work (-want +got):\n%s", diff)
	}
	if after := p.requeueAfter(f); after != blockedAgain {
		t.Errorf("it looks again after %s, want %s: of the deletion of a stranger there is no event", after, blockedAgain)
	}
	if text, _ := p.Progress[0].describeProgress(); !strings.Contains(text, `a (ManifestWork "a/web-00000" exists and does not belong to this`) {
		t.Errorf("the status says %q", text)
	}
}

func TestAClusterWithoutANamespaceIsLookedForAgain(t *testing.T) {
	f := planFacts{Choices: []choice{chosen("p", rollout.Strategy{Kind: rollout.All}, []string{"a", "b"})}, Template: "new", Now: at(1000).Time, Joined: map[string]bool{"b": true}}
	if after := planWrites(f).requeueAfter(f); after != blockedAgain {
		t.Errorf("it looks again after %s, want %s: the namespace may come while the status is written", after, blockedAgain)
	}
	f.Joined["a"] = true
	if after := planWrites(f).requeueAfter(f); after != 0 {
		t.Errorf("it looks again after %s although nothing is missing", after)
	}
}

// An agent may put our label onto any work of its cluster.
func TestALabelDoesNotMakeAWorkOurs(t *testing.T) {
	set := types.NamespacedName{Namespace: "apps", Name: "web"}
	for name, want := range map[string]bool{workName(set): true, "web-x7k2p": true, "payroll": false, "web": false} {
		if got := isOurs(set, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != want {
			t.Errorf("a work named %q is ours: %t, want %t", name, got, want)
		}
	}
}
