// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	clustermanager "github.com/capstan-io/capstan/operators/clustermanager/manifests"
	klusterlet "github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// lookEvery is how often something is looked at that is waited for.
const lookEvery = time.Second

// Waiter waits until what was installed works.
type Waiter struct {
	// Client reads the cluster.
	Client client.Client
	// Timeout is how long each single thing may take.
	Timeout time.Duration
	// Hint is added to the next step where the end of something was waited for in vain.
	Hint string
	// Note is told what is waited for, each time that it changes.
	Note func(text string)
}

// waitState is how far something is that is waited for.
type waitState struct {
	done bool
	// stuck is how long it may be like this until nobody waits for it any longer, as
	// it does not get on unless somebody does something; zero if it does.
	stuck time.Duration
	// why tells people what is missing.
	why string
}

// pollState looks until the state is done. An error of a look that may pass is a
// reason to wait, too: an API server may be restarted meanwhile.
func (w Waiter) pollState(ctx context.Context, what, next string, look func(context.Context) (waitState, error)) error {
	patience, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	last := ""
	var stuckSince time.Time
	for {
		s, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return fmt.Errorf("wait for %s: %w", what, err)
		case err != nil:
			s = waitState{why: err.Error()}
		case s.done:
			return nil
		}
		if s.why != last && w.Note != nil {
			w.Note(s.why)
		}
		last = s.why
		switch {
		case s.stuck == 0:
			stuckSince = time.Time{}
		case stuckSince.IsZero():
			stuckSince = time.Now()
		case time.Since(stuckSince) > min(s.stuck, w.Timeout):
			return exit.Next(fmt.Errorf("%s is stuck: %s", what, last), "%s", next)
		}
		timer := time.NewTimer(lookEvery)
		select {
		case <-timer.C:
		case <-patience.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &exit.Error{Err: fmt.Errorf("waited %s for %s: %s", w.Timeout, what, last), Next: next, Code: exit.TimedOut}
		}
	}
}

// PollUntil waits for something that the caller looks at. An error of a look that may
// pass is a reason to wait, too. The next step is for who gives up.
func (w Waiter) PollUntil(
	ctx context.Context, what, next string, look func(context.Context) (done bool, why string, err error),
) error {
	return w.pollState(ctx, what, next, func(ctx context.Context) (waitState, error) {
		done, why, err := look(ctx)
		return waitState{done: done, why: why}, err
	})
}

// AwaitEstablished waits until the API server knows the kind of a definition.
func (w Waiter) AwaitEstablished(ctx context.Context, name string) error {
	next := fmt.Sprintf("%q shows details.", "kubectl describe customresourcedefinition "+name)
	return w.pollState(ctx, fmt.Sprintf("the definition %q", name), next, func(ctx context.Context) (waitState, error) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
			return waitState{}, err
		}
		for _, condition := range definition.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return waitState{done: true}, nil
			}
		}
		return waitState{why: "the API server does not serve it yet"}, nil
	})
}

// AwaitDeployment waits until all pods of a Deployment are of its present state and
// available.
func (w Waiter) AwaitDeployment(ctx context.Context, key client.ObjectKey) error {
	next := fmt.Sprintf("Run the same command again to continue. %q shows details.",
		fmt.Sprintf("kubectl -n %s describe pods", key.Namespace))
	return w.pollState(ctx, fmt.Sprintf("the Deployment %q", key), next, func(ctx context.Context) (waitState, error) {
		deployment := &appsv1.Deployment{}
		if err := w.Client.Get(ctx, key, deployment); err != nil {
			return waitState{}, err
		}
		s := rolloutState(deployment)
		if s.done {
			return s, nil
		}
		return w.withPods(ctx, s, key.Namespace, client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	})
}

// AwaitClusterManager waits until the hub of a ClusterManager works.
func (w Waiter) AwaitClusterManager(ctx context.Context, name string) error {
	next := fmt.Sprintf("Run the same command again to continue. %q shows details.", "kubectl describe clustermanager "+name)
	return w.pollState(ctx, fmt.Sprintf("ClusterManager %q", name), next, func(ctx context.Context) (waitState, error) {
		cm := &operatorv1.ClusterManager{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, cm); err != nil {
			return waitState{}, err
		}
		s := hubState(cm)
		if s.done {
			return s, nil
		}
		hub := clustermanager.Hub{Name: cm.Name, Spec: cm.Spec}
		return w.withPods(ctx, s, hub.Namespace(), nil)
	})
}

// AwaitControlPlane waits until the API server of a ControlPlane works and its
// kubeconfig is written.
func (w Waiter) AwaitControlPlane(ctx context.Context, key client.ObjectKey) error {
	next := fmt.Sprintf("Run the same command again to continue. %q shows details.",
		fmt.Sprintf("kubectl -n %s describe controlplane %s", key.Namespace, key.Name))
	return w.pollState(ctx, fmt.Sprintf("ControlPlane %q", key), next, func(ctx context.Context) (waitState, error) {
		cp := &fleetv1alpha1.ControlPlane{}
		if err := w.Client.Get(ctx, key, cp); err != nil {
			return waitState{}, err
		}
		s, explained := controlPlaneState(cp)
		if s.done || explained {
			return s, nil
		}
		return w.withPods(ctx, s, key.Namespace, nil)
	})
}

// AwaitKlusterlet waits until the agents of a Klusterlet run. Whether they have
// joined is up to the hub.
func (w Waiter) AwaitKlusterlet(ctx context.Context, name string) error {
	next := fmt.Sprintf("Run the same command again to continue. %q shows details.", "kubectl describe klusterlet "+name)
	return w.pollState(ctx, fmt.Sprintf("Klusterlet %q", name), next, func(ctx context.Context) (waitState, error) {
		k := &operatorv1.Klusterlet{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, k); err != nil {
			return waitState{}, err
		}
		s := agentState(k)
		if s.done {
			return s, nil
		}
		return w.withPods(ctx, s, klusterlet.AgentNamespace(k), nil)
	})
}

// withPods adds to a state why the pods do not run, as far as the user may see
// them. While the operator itself does not run, that is the reason.
func (w Waiter) withPods(ctx context.Context, s waitState, namespace string, selector client.MatchingLabels) (waitState, error) {
	for _, place := range []string{namespace, operatorv1.DefaultOperatorNamespace} {
		options := []client.ListOption{client.InNamespace(place)}
		if selector != nil {
			options = append(options, selector)
		}
		pods := &corev1.PodList{}
		if err := w.Client.List(ctx, pods, options...); err != nil && !apierrors.IsForbidden(err) {
			return s, fmt.Errorf("list the pods in namespace %q: %w", place, err)
		}
		if trouble := troubleOf(pods.Items); trouble != "" {
			s.why += ": " + trouble
			return s, nil
		}
	}
	return s, nil
}

// AwaitGone waits until an object that was deleted is gone.
func (w Waiter) AwaitGone(ctx context.Context, object client.Object) error {
	kind := object.GetObjectKind().GroupVersionKind()
	next := strings.TrimSpace("Run the same command again to continue. " + w.Hint)
	return w.pollState(ctx, "the end of "+describeObject(object), next, func(ctx context.Context) (waitState, error) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(kind)
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) {
			return waitState{done: true}, nil
		}
		if err != nil {
			return waitState{}, err
		}
		return waitState{why: remainingReason(live)}, nil
	})
}
