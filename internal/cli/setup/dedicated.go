// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/server/features"
)

const (
	// nameMax is how long its name can be: with "-registration-webhook" after it, it
	// is a label of pods, which has 63 characters at most.
	nameMax = 42
	// etcdMembers is how many a hub with several API servers has of etcd.
	etcdMembers = 3

	flagDedicated    = "dedicated"
	flagName         = "name"
	flagKubernetes   = "kubernetes-version"
	flagStorageClass = "storage-class"
	flagNodePort     = "node-port"
	flagHubContext   = "hub-context"
	flagEtcd         = "external-etcd"
	flagEtcdSecret   = "external-etcd-secret" //nolint:gosec // the name of a flag
	flagDeleteData   = "delete-data"

	// askTimeout is how long a request to a hub may take that is about to go.
	askTimeout = 30 * time.Second
)

var dnsLabel = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// dedicatedHub is a dedicated hub as the user wants it: an API server of its own,
// which runs as pods on the cluster of the session, the host.
type dedicatedHub struct {
	name    string
	context string

	replicas     int32
	version      string
	registry     string
	endpoints    []string
	etcdSecret   string
	storageClass string
	serviceType  string
	nodePort     int32
	names        []string
}

// addFlags adds the flags that a dedicated hub has in addition, and returns
// their names.
func (d *dedicatedHub) addFlags(cmd *cobra.Command) []string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&d.name, flagName, install.DedicatedName, "Name of the dedicated hub on its host: of its ControlPlane, its ClusterManager and their namespaces")
	flags.StringVar(&d.context, flagHubContext, "", "Context for the dedicated hub in the kubeconfig (default: its name)")
	flags.StringVar(&d.version, flagKubernetes, "", "Version of Kubernetes of the dedicated hub, such as "+fleetv1alpha1.DefaultKubernetesVersion)
	flags.StringVar(&d.registry, "image-registry", "", "Where the images etcd, kube-apiserver and kube-controller-manager of the dedicated hub are (default: registry.k8s.io)")
	flags.StringSliceVar(&d.endpoints, flagEtcd, nil, "URLs of an etcd that the dedicated hub stores its objects in, instead of one of its own")
	flags.StringVar(&d.etcdSecret, flagEtcdSecret, "", "Secret with the credential for --external-etcd (keys ca.crt, tls.crt, tls.key), in the namespace NAME-control-plane")
	flags.StringVar(&d.storageClass, flagStorageClass, "", "StorageClass for the etcd of the dedicated hub (default: the default one of the host)")
	flags.StringVar(&d.serviceType, "service-type", string(corev1.ServiceTypeNodePort), "How the dedicated hub is reached. One of: (NodePort, LoadBalancer, ClusterIP)")
	flags.Int32Var(&d.nodePort, flagNodePort, 0, "Port of the dedicated hub on the nodes of the host (default: a free one)")
	flags.StringSliceVar(&d.names, "external-names", nil, "Host names and IP addresses under which the dedicated hub is reached; the first one is that in kubeconfigs")
	var added []string
	flags.VisitAll(func(f *pflag.Flag) { added = append(added, f.Name) })
	cmd.Flags().AddFlagSet(flags)
	return added
}

// checkFlags returns what of the command line makes no sense.
func (d *dedicatedHub) checkFlags() error {
	switch {
	case len(d.name) > nameMax:
		return exit.UsageError("--name: %q has %d characters, and can have %d at most", d.name, len(d.name), nameMax)
	case !dnsLabel.MatchString(d.name):
		return exit.UsageError("--name: %q is not a name of lower case letters, digits and hyphens that begins with a letter", d.name)
	case d.name == "default" || strings.HasPrefix(d.name, "kube-") || strings.HasPrefix(d.name, "open-cluster-management"):
		return exit.UsageError("--name: the namespace %q has another purpose; choose another name", d.name)
	case (len(d.endpoints) > 0) != (d.etcdSecret != ""):
		return exit.UsageError("--%s and --%s belong together", flagEtcd, flagEtcdSecret)
	case len(d.endpoints) > 0 && d.storageClass != "":
		return exit.UsageError("--%s is for an etcd that the hub runs itself, not for --%s", flagStorageClass, flagEtcd)
	case !slices.Contains([]corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP}, corev1.ServiceType(d.serviceType)):
		return exit.UsageError("--service-type: unknown type %q; the types are NodePort, LoadBalancer and ClusterIP", d.serviceType)
	case d.nodePort != 0 && corev1.ServiceType(d.serviceType) == corev1.ServiceTypeClusterIP:
		return exit.UsageError("--%s needs --service-type NodePort or LoadBalancer", flagNodePort)
	}
	return nil
}

func (d *dedicatedHub) controlPlaneKey() client.ObjectKey { return install.DedicatedKey(d.name) }

// contextName is the name of the hub's context in the kubeconfig.
func (d *dedicatedHub) contextName() string {
	if d.context != "" {
		return d.context
	}
	return d.name
}

// controlPlane returns the spec of the control plane: as it is, if there is one,
// with what the user has given. given tells which flags were.
func (d *dedicatedHub) controlPlane(live *fleetv1alpha1.ControlPlane, given func(flag string) bool) fleetv1alpha1.ControlPlaneSpec {
	spec := fleetv1alpha1.ControlPlaneSpec{}
	if live != nil {
		spec = *live.Spec.DeepCopy()
	}
	if d.replicas > 0 {
		spec.Replicas = d.replicas
	}
	if d.version != "" {
		spec.Version = d.version
	}
	if d.registry != "" {
		spec.ImageRegistry = d.registry
	}
	if live == nil || given("service-type") {
		spec.Service.Type = corev1.ServiceType(d.serviceType)
	}
	if d.nodePort != 0 {
		spec.Service.NodePort = d.nodePort
	}
	if len(d.names) > 0 {
		spec.Service.ExternalNames = d.names
	}
	d.setEtcd(live, &spec)
	return spec
}

// setEtcd sets where the control plane stores its objects. The number of members
// cannot be changed, so only a new one gets several.
func (d *dedicatedHub) setEtcd(live *fleetv1alpha1.ControlPlane, spec *fleetv1alpha1.ControlPlaneSpec) {
	if len(d.endpoints) > 0 {
		if spec.Etcd.External == nil {
			spec.Etcd.External = &fleetv1alpha1.ControlPlaneExternalEtcd{}
		}
		spec.Etcd.External.Endpoints = d.endpoints
		spec.Etcd.External.SecretRef = fleetv1alpha1.SecretReference{Name: d.etcdSecret}
		return
	}
	if spec.Etcd.External != nil {
		return
	}
	if spec.Etcd.Managed == nil {
		spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{Replicas: 1}
		if live == nil && d.replicas > 1 {
			spec.Etcd.Managed.Replicas = etcdMembers
		}
	}
	if d.storageClass != "" {
		spec.Etcd.Managed.Storage.ClassName = &d.storageClass
	}
}

// hostedHubSpec returns the spec of the hub on the control plane. Its webhooks run on the
// host as the API server does, which reaches them by Services.
func (d *dedicatedHub) hostedHubSpec(gates, users []string) (operatorv1.ClusterManagerSpec, error) {
	gates = slices.Clone(gates)
	for _, wanted := range []features.Gate{features.AggregatedAPI, features.Propagation, features.NamespaceSyncAll, features.KarmadaEvents} {
		chosen := func(gate string) bool { return strings.HasPrefix(gate, string(wanted)+"=") }
		if !slices.ContainsFunc(gates, chosen) {
			gates = append(gates, string(wanted)+"=true")
		}
	}
	spec, err := hubSpec(gates, users)
	if err != nil {
		return spec, err
	}
	spec.DeployOption = operatorv1.ClusterManagerDeployOption{
		Mode: operatorv1.InstallModeHosted,
		Hosted: &operatorv1.HostedClusterManagerConfiguration{
			RegistrationWebhookConfiguration: d.webhookConfiguration(registrationWebhook),
			WorkWebhookConfiguration:         d.webhookConfiguration(workWebhook),
		},
	}
	return spec, nil
}

// The webhooks of a hub: how the names of their pods end, and what the Services
// are called that lead to them.
const (
	registrationWebhook = "registration-webhook"
	workWebhook         = "work-webhook"

	webhookPort       = 443
	webhookTargetPort = 9443
)

func (d *dedicatedHub) webhookConfiguration(service string) operatorv1.HostedWebhookConfiguration {
	return operatorv1.HostedWebhookConfiguration{Address: fmt.Sprintf("%s.%s.svc", service, d.name), Port: webhookPort}
}
