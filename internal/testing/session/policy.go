// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/placer"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

// propagates does what a directive about propagation says, if it is one:
//
//	propagates                       the controllers run, until the session ends
//	runs CLUSTER WORK STATUS         the agent applies the object of a binding, which has the status
//	member FILE                      member1.kubeconfig leads to a cluster of its own that has what is in the file
//	obeys CLUSTER                    the agent applies all works, until the session ends
//	told NAMESPACE/BINDING CLUSTER [MESSAGE]
//	                                 wait until the binding says this of the cluster, or that it has the object
//	sums NAMESPACE/DEPLOYMENT N      wait until its status on the hub has so many replicas
//	edits s/A/B/                     the user's editor does this from now on
//	withdraw NAMESPACE               the policies and Deployments of a namespace go, and what was made for them
func propagates(t testing.TB, w *playedhub.PlayedHub, directive string) bool {
	t.Helper()
	words := strings.SplitN(directive, " ", 4)
	switch {
	case directive == "propagates":
		placer.StartPropagation(t, w.AdminConfig)
	case len(words) == 4 && words[0] == "runs":
		agentReports(t, w, words[1], words[2], "")
		runs(t, w, client.ObjectKey{Namespace: words[1], Name: words[2]}, words[3])
	case len(words) == 3 && words[0] == "told":
		told(t, w, words[1], words[2], "")
	case len(words) == 4 && words[0] == "told":
		told(t, w, words[1], words[2], words[3])
	case len(words) == 2 && words[0] == "withdraw":
		withdraw(t, w, words[1])
	default:
		return happensBeside(t, w, words)
	}
	return true
}

// happensBeside does what a directive says about a member, or the user's editor.
func happensBeside(t testing.TB, w *playedhub.PlayedHub, words []string) bool {
	t.Helper()
	switch {
	case len(words) == 2 && words[0] == "member":
		startMember1(t, w, words[1])
	case len(words) == 2 && words[0] == "obeys":
		t.Cleanup(obeys(t, w, words[1]))
	case len(words) == 3 && words[0] == "sums":
		sums(t, w, words[1], words[2])
	case len(words) == 2 && words[0] == "edits":
		t.Setenv("KUBE_EDITOR", "sed -i "+words[1])
		t.Setenv("TMPDIR", t.TempDir())
	default:
		return false
	}
	return true
}

// runs reports the status of an object that is well.
func runs(t testing.TB, w *playedhub.PlayedHub, key client.ObjectKey, status string) {
	t.Helper()
	playedhub.Eventually(t, func() error {
		work, healthy := &workv1.ManifestWork{}, string(workv1alpha2.ResourceHealthy)
		if err := w.Client.Get(t.Context(), key, work); err != nil {
			return err
		}
		work.Status.ResourceStatus.Manifests[0].StatusFeedback.Values = []workv1.FeedbackValue{
			{Name: "status", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &status}},
			{Name: "health", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: &healthy}},
		}
		return w.Client.Status().Update(t.Context(), work)
	})
}

func sums(t testing.TB, w *playedhub.PlayedHub, deployment, replicas string) {
	t.Helper()
	namespace, name, _ := strings.Cut(deployment, "/")
	playedhub.Eventually(t, func() error {
		d := &unstructured.Unstructured{}
		d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
			return err
		}
		if has, _, _ := unstructured.NestedInt64(d.Object, "status", "replicas"); fmt.Sprint(has) != replicas {
			return fmt.Errorf("the status of Deployment %s is %v", deployment, d.Object["status"])
		}
		return nil
	})
}

// startMember1 starts an API server that member1.kubeconfig leads to.
func startMember1(t testing.TB, w *playedhub.PlayedHub, file string) {
	t.Helper()
	environment, config := StartMember(t, w.Servers)
	c, err := client.New(config, client.Options{Scheme: w.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	(&playedhub.PlayedHub{Client: c}).LoadFile(t, file)
	w.Member = filepath.Join(t.TempDir(), "member1.kubeconfig")
	if err := os.WriteFile(w.Member, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Member = "" })
}

// memberKubeconfig is the kubeconfig of the member that the session has started. Others are
// the API server of the hub, too.
func memberKubeconfig(w *playedhub.PlayedHub) string {
	if w.Member != "" {
		return w.Member
	}
	return w.Kubeconfig
}

// obeys has the agent of a cluster apply each work that comes, until the function is
// called that it returns.
func obeys(t testing.TB, w *playedhub.PlayedHub, cluster string) func() {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			works := &workv1.ManifestWorkList{}
			if err := w.Client.List(ctx, works, client.InNamespace(cluster)); err == nil {
				for i := range works.Items {
					work := &works.Items[i]
					if applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied); applied == nil || applied.ObservedGeneration < work.Generation {
						// Somebody may write at the same time: the next round tries again.
						_ = w.Client.Status().Update(ctx, applying(work, ""))
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() {
		stop()
		<-ended
	}
}

func told(t testing.TB, w *playedhub.PlayedHub, binding, cluster, message string) {
	t.Helper()
	namespace, name, _ := strings.Cut(binding, "/")
	playedhub.Eventually(t, func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, b); err != nil {
			return err
		}
		for _, item := range b.Status.AggregatedStatus {
			has := item.Applied && item.Status != nil
			if item.ClusterName == cluster && (message == "" && has || message != "" && strings.Contains(item.AppliedMessage, message)) {
				return nil
			}
		}
		return fmt.Errorf("binding %s says %+v", binding, b.Status.AggregatedStatus)
	})
}

func withdraw(t testing.TB, w *playedhub.PlayedHub, namespace string) {
	t.Helper()
	deployments := &unstructured.UnstructuredList{}
	deployments.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeploymentList"})
	deployment := &unstructured.Unstructured{}
	deployment.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	err := errors.Join(
		w.Client.DeleteAllOf(t.Context(), deployment, client.InNamespace(namespace)),
		w.Client.DeleteAllOf(t.Context(), &policyv1alpha1.PropagationPolicy{}, client.InNamespace(namespace)),
		w.Client.DeleteAllOf(t.Context(), &policyv1alpha1.ClusterPropagationPolicy{}),
		w.Client.DeleteAllOf(t.Context(), &policyv1alpha1.OverridePolicy{}, client.InNamespace(namespace)),
		w.Client.DeleteAllOf(t.Context(), &policyv1alpha1.ClusterOverridePolicy{}),
		w.Client.DeleteAllOf(t.Context(), &appsv1alpha1.WorkloadRebalancer{}),
		w.Client.DeleteAllOf(t.Context(), &fleetv1alpha1.PropagationRollout{}, client.InNamespace(namespace)),
		w.Client.DeleteAllOf(t.Context(), &fleetv1alpha1.PropagationRevision{}, client.InNamespace(namespace)),
		// Nobody collects garbage here.
		w.Client.DeleteAllOf(t.Context(), &workv1alpha2.ResourceBinding{}, client.InNamespace(namespace)))
	if err != nil {
		t.Fatal(err)
	}
	playedhub.Eventually(t, func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.Client.List(t.Context(), works); err != nil {
			return err
		}
		for i := range works.Items {
			if work := &works.Items[i]; work.DeletionTimestamp != nil { // its agent lets it go
				work.Finalizers = nil
				if err := client.IgnoreNotFound(w.Client.Update(t.Context(), work)); err != nil {
					return err
				}
			}
		}
		for _, list := range []client.ObjectList{
			deployments, &policyv1alpha1.PropagationPolicyList{}, &policyv1alpha1.ClusterPropagationPolicyList{}, &workv1alpha2.ResourceBindingList{},
		} {
			if err := w.Client.List(t.Context(), list); err != nil {
				return err
			}
			if left := meta.LenList(list); left > 0 {
				return fmt.Errorf("%T: %d are left", list, left)
			}
		}
		return nil
	})
}
