// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

// validateClusterManager refuses what this version cannot install and resolves the feature
// gates. Gates that do not exist are told in a condition and left out.
func (w *hubPreparation) validateClusterManager(ctx context.Context, p *clusterManagerPass) error {
	spec := p.Object.Spec
	for _, err := range []error{checkSupportedSpec(spec), readLimitAnnotations(p), checkSameMode(p.Object), checkHostable(p.Object, w.Options.Namespace), w.checkOnlyDefaultHub(ctx, p.Object)} {
		if err != nil {
			return err
		}
	}

	resolved, unknown := resolveFeatureGates(spec)
	p.hub.Registration = resolved[0]
	p.hub.Work = resolved[1]
	p.hub.Placement = resolved[3]
	conditions.SetCondition(&p.Object.Status.Conditions, p.Object.Generation, status.FeatureGatesCondition(unknown, features.ValidMessage(resolved...)))
	return nil
}

// checkSupportedSpec returns a MistakeError for what this version cannot install.
func checkSupportedSpec(spec operatorv1.ClusterManagerSpec) error {
	if spec.RegistrationConfiguration != nil {
		for _, driver := range spec.RegistrationConfiguration.RegistrationDrivers {
			if driver.AuthType != operatorv1.AuthTypeCSR {
				return install.MistakeError{
					Message: fmt.Sprintf("registrationConfiguration.registrationDrivers has authType %q, which this version does not support; use %q",
						driver.AuthType, operatorv1.AuthTypeCSR),
				}
			}
		}
	}
	if work := spec.WorkConfiguration; work != nil && work.WorkDriver != "" && work.WorkDriver != operatorv1.WorkDriverTypeKube {
		return install.MistakeError{
			Message: fmt.Sprintf("workConfiguration.workDriver is %q, which this version does not support; use %q",
				work.WorkDriver, operatorv1.WorkDriverTypeKube),
		}
	}
	return nil
}

// readLimitAnnotations notes the limits that the annotations of the ClusterManager set: on users, on
// agents, on works, and on series of metrics. It returns a MistakeError if one cannot be read: with
// the default instead, a hub that is to be narrower would be wide open.
func readLimitAnnotations(p *clusterManagerPass) error {
	var err, wrong error
	if _, set := p.Object.Annotations[operatorv1.AnnotationMaxUnacceptedClusters]; set {
		var limit int
		limit, err = p.Object.MaxUnacceptedClusters()
		p.hub.MaxUnaccepted = &limit
	}
	if _, set := p.Object.Annotations[operatorv1.AnnotationMaxAutomaticClusters]; set {
		var limit int
		limit, wrong = p.Object.MaxAutomaticClusters()
		p.hub.MaxAutomatic = &limit
	}
	named, unclear := p.Object.MetricsPerCluster()
	p.hub.MetricsPerCluster = named
	requests, mistake := p.Object.MaxRequestsPerUser()
	p.hub.MaxRequestsPerUser = requests
	labels, malformed := agentlabels.ParseAllowedKeys(p.Object.Annotations[fleetv1alpha1.AnnotationAgentLabels])
	if malformed != nil {
		malformed = fmt.Errorf("annotation %s: %w", fleetv1alpha1.AnnotationAgentLabels, malformed)
	}
	p.hub.AgentLabels = labels
	shared, oversized := sharedWorkBytes(p.Object)
	p.hub.SharedWorkBytesMax = shared
	if err = errors.Join(err, wrong, unclear, mistake, malformed, oversized); err != nil {
		return install.MistakeError{Message: err.Error()}
	}
	return nil
}

// sharedWorkBytes returns what the works of namespaces may have together, as the annotation says it;
// empty without one.
func sharedWorkBytes(cm *operatorv1.ClusterManager) (string, error) {
	text, set := cm.Annotations[fleetv1alpha1.AnnotationSharedWorkBytesMax]
	if !set {
		return "", nil
	}
	if _, err := allowance.ParseShared(text); err != nil {
		return "", fmt.Errorf("annotation %s: %w", fleetv1alpha1.AnnotationSharedWorkBytesMax, err)
	}
	return text, nil
}

// checkSameMode returns a MistakeError if the hub is installed in another mode than
// that of the spec: what is on one cluster would be left there.
func checkSameMode(cm *operatorv1.ClusterManager) error {
	wanted := cm.Spec.DeployOption.Mode
	if wanted == "" {
		wanted = operatorv1.InstallModeDefault
	}
	if installed := installedMode(cm); installed != wanted {
		return install.MistakeError{
			Message: fmt.Sprintf("deployOption.mode cannot become %q while the hub is installed in mode %q; delete the ClusterManager and create a new one",
				wanted, installed),
		}
	}
	return nil
}

// checkHostable returns a MistakeError for why the hub of mode Hosted cannot have a
// namespace that is called as its ClusterManager, and goes away with it, or
// cannot be reached.
func checkHostable(cm *operatorv1.ClusterManager, operatorNamespace string) error {
	if cm.Spec.DeployOption.Mode != operatorv1.InstallModeHosted {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return install.MistakeError{Message: fmt.Sprintf(format, args...)}
	}
	name := cm.Name
	hosted := cm.Spec.DeployOption.Hosted
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return refuse("a hosted hub needs a namespace named after its ClusterManager, but %q is not a valid namespace name: %s", name, strings.Join(problems, "; "))
	}
	if slices.Contains([]string{operatorNamespace, operatorv1.DefaultHubNamespace, metav1.NamespaceDefault}, name) || strings.HasPrefix(name, "kube-") {
		return refuse("a hosted hub needs its own namespace, named after its ClusterManager, but %q is reserved; give the ClusterManager another name", name)
	}
	if address := cm.Annotations[operatorv1.AnnotationAPIServerAddress]; address != "" && !isHost(address) {
		return refuse("annotation %s is %q, which is not a host name or IPv4 address without a port", operatorv1.AnnotationAPIServerAddress, address)
	}
	if hosted == nil || hosted.RegistrationWebhookConfiguration.Address == "" || hosted.WorkWebhookConfiguration.Address == "" {
		return refuse("deployOption.hosted has no address for the registration webhook or the work webhook; the hub's API server needs both to reach them")
	}
	return nil
}

// isHost reports whether an address is the name of a host, or its IPv4 address.
func isHost(address string) bool {
	if ip := net.ParseIP(address); ip != nil {
		return ip.To4() != nil
	}
	return len(validation.IsDNS1123Subdomain(address)) == 0
}

// checkOnlyDefaultHub returns a WaitError if there was a hub of mode Default first. It is not a
// MistakeError, as the other one may be deleted.
func (w *hubPreparation) checkOnlyDefaultHub(ctx context.Context, cm *operatorv1.ClusterManager) error {
	if cm.Spec.DeployOption.Mode == operatorv1.InstallModeHosted {
		return nil // which cluster its hub is has to be found out first
	}
	older, err := w.olderHub(ctx, cm)
	if err != nil || older == "" {
		return err
	}
	return newWaitError(operatorv1.ClusterManagerReasonAnotherClusterManager,
		fmt.Sprintf("ClusterManager %q already runs a hub on this cluster; delete one of the two", older))
}

// checkHubIsFree returns a WaitError if the hub of mode Hosted has another installation
// already: definitions and webhook configurations can be there only once.
func (w *hubPreparation) checkHubIsFree(ctx context.Context, p *clusterManagerPass) error {
	list := &admissionv1.MutatingWebhookConfigurationList{}
	if err := p.target.Live.List(ctx, list, client.HasLabels{operatorv1.LabelCreatedByClusterManager}); err != nil {
		return fmt.Errorf("listing the webhook configurations of the hub: %w", err)
	}
	for i := range list.Items {
		for _, hook := range list.Items[i].Webhooks {
			if service := hook.ClientConfig.Service; service != nil && service.Namespace != p.hub.Namespace() {
				return newWaitError(operatorv1.ClusterManagerReasonAnotherClusterManager, fmt.Sprintf(
					"ClusterManager %q already runs a hub on %s, in namespace %q; delete one of the two",
					list.Items[i].Labels[operatorv1.LabelCreatedByClusterManager], p.credential.Host(), service.Namespace))
			}
		}
	}
	return nil
}

// olderHub returns the name of a ClusterManager that was there first: hubs in
// mode Default would share names and namespace.
func (w *hubPreparation) olderHub(ctx context.Context, cm *operatorv1.ClusterManager) (string, error) {
	list := &operatorv1.ClusterManagerList{}
	if err := w.Client.List(ctx, list); err != nil {
		return "", fmt.Errorf("listing ClusterManagers: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == cm.Name || other.Spec.DeployOption.Mode == operatorv1.InstallModeHosted {
			continue
		}
		if other.CreationTimestamp.Before(&cm.CreationTimestamp) ||
			other.CreationTimestamp.Equal(&cm.CreationTimestamp) && other.Name < cm.Name {
			return other.Name, nil
		}
	}
	return "", nil
}

// resolveFeatureGates resolves the gates of the spec, those of registration and work first, and
// returns those that do not exist, each with the field that has it.
func resolveFeatureGates(spec operatorv1.ClusterManagerSpec) (resolved []features.GateSet, unknown []string) {
	resolve := func(component features.Component, list []operatorv1.FeatureGate) features.GateSet {
		set, names := features.ResolveGates(component, changedGates(list))
		field := strings.TrimPrefix(string(component), "ClusterManager.spec.")
		for _, name := range names {
			unknown = append(unknown, fmt.Sprintf("%s: %q", field, name))
		}
		return set
	}
	var registrationGates, workGates, addOnGates, placementGates []operatorv1.FeatureGate
	if spec.RegistrationConfiguration != nil {
		registrationGates = spec.RegistrationConfiguration.FeatureGates
	}
	if spec.WorkConfiguration != nil {
		workGates = spec.WorkConfiguration.FeatureGates
	}
	if spec.AddOnManagerConfiguration != nil {
		addOnGates = spec.AddOnManagerConfiguration.FeatureGates
	}
	if spec.PlacementConfiguration != nil {
		placementGates = spec.PlacementConfiguration.FeatureGates
	}
	resolved = []features.GateSet{
		resolve(features.HubRegistration, registrationGates),
		resolve(features.HubWork, workGates),
		resolve(features.HubAddOnManager, addOnGates),
		resolve(features.HubPlacement, placementGates),
	}
	slices.Sort(unknown)
	return resolved, unknown
}

func changedGates(list []operatorv1.FeatureGate) map[string]bool {
	gates := map[string]bool{}
	for _, gate := range list {
		gates[gate.Feature] = gate.Mode == operatorv1.FeatureGateModeEnable
	}
	return gates
}
