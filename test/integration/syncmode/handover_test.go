// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package syncmode

import (
	"context"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	operator "github.com/capstan-io/capstan/operators/klusterlet"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
)

// leftMin is how much has to be left to take over when the Klusterlet is deleted.
const leftMin = manyWorks / 4

// TestAKlusterletMayBeDeletedBeforeAllIsTakenOver attacks what runs on a cluster
// that goes from Pull to Push: its Klusterlet is deleted while the push agent has
// some of the records, and the agent before the others.
func TestAKlusterletMayBeDeletedBeforeAllIsTakenOver(t *testing.T) {
	l := newLab(t)
	l.startGarbageCollector()
	installed := l.createKlusterlet()
	l.agent = string(installed.UID)
	l.startPull()
	l.startPush()
	l.isPullCluster()
	for i := range manyWorks {
		l.create(workload(i))
	}
	l.ownedBy(l.agent, manyWorks)
	before := l.delivery()

	l.endpoint = farAway(t, l.member.config.Host, oneWay)
	l.secret()
	connection := l.connect(fleetv1alpha1.SyncModePush)
	l.eventually("the push agent to take over the first record", func(ctx context.Context) string {
		if taken := l.records(ctx)[string(connection.UID)]; taken == 0 {
			return "it has none"
		}
		return ""
	})
	l.removeKlusterlet(installed)
	if left := l.records(t.Context())[l.agent]; left < leftMin {
		t.Errorf("only %d records are left to take over when the Klusterlet is gone, want %d: else this proves nothing", left, leftMin)
	}
	l.ownedBy(string(connection.UID), manyWorks) // so the mark is gone as well
	l.collectGarbage()
	l.nothingLost(before)
}

// records counts the records of each agent.
func (l *lab) records(ctx context.Context) map[string]int {
	l.t.Helper()
	list, count := &workv1.AppliedManifestWorkList{}, map[string]int{}
	must(l.t, l.member.client.List(ctx, list))
	for i := range list.Items {
		count[list.Items[i].Spec.AgentID]++
	}
	return count
}

// createKlusterlet makes a Klusterlet in the member, as if its agent were installed.
func (l *lab) createKlusterlet() *operatorv1.Klusterlet {
	l.t.Helper()
	made := &operatorv1.Klusterlet{
		ObjectMeta: metav1.ObjectMeta{Name: "klusterlet", Finalizers: []string{operatorv1.FinalizerKlusterletCleanup}},
		Spec:       operatorv1.KlusterletSpec{ClusterName: cluster},
	}
	must(l.t, l.member.client.Create(l.t.Context(), made))
	return made
}

// removeKlusterlet deletes the Klusterlet and has its operator remove what it
// installed.
func (l *lab) removeKlusterlet(installed *operatorv1.Klusterlet) {
	l.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme,
	} {
		must(l.t, add(scheme))
	}
	c, err := client.New(l.member.config, client.Options{Scheme: scheme})
	must(l.t, err)
	rules, err := operator.LoadAgentRules()
	must(l.t, err)
	controller := operator.NewKlusterletController(operator.ControllerDeps{
		Client: c, Live: c, Secrets: c, Results: hubprobe.NewResultStore(), Rules: rules,
		Events: events.NewFakeRecorder(100), Clock: clock.RealClock{},
		Settings: operator.OperatorSettings{Namespace: "open-cluster-management", Image: "capstan:test", Version: "1.2.3"},
	})
	must(l.t, c.Delete(l.t.Context(), installed))
	l.eventually("the Klusterlet to be gone", func(ctx context.Context) string {
		err := c.Get(ctx, client.ObjectKeyFromObject(installed), installed)
		if apierrors.IsNotFound(err) {
			return ""
		}
		must(l.t, err)
		_, err = controller.Reconcile(ctx, installed)
		return fmt.Sprintf("the operator says %v", err)
	})
}
