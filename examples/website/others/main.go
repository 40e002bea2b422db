// SPDX-License-Identifier: Apache-2.0

// The website with controller-runtime. Its rights are the markers below, from which controller-gen makes a role.
package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebsiteSpec   `json:"spec,omitempty"`
	Status            WebsiteStatus `json:"status,omitempty"`
}

type WebsiteSpec struct {
	HTML     string `json:"html"`
	Replicas *int32 `json:"replicas,omitempty"`
}

type WebsiteStatus struct {
	Ready int32 `json:"ready"`
}

type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// controller-gen makes these four for the types of a project.
func (in *Website) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Replicas != nil {
		replicas := *in.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	return &out
}

func (in *WebsiteList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Website, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*Website)
	}
	return &out
}

type WebsiteReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=pages.example.com,resources=websites,verbs=get;list;watch
// +kubebuilder:rbac:groups=pages.example.com,resources=websites/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=pages.example.com,resources=websites/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=get;list;watch;create;update;patch
func (r *WebsiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site Website
	if err := r.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	meta := metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}
	labels := map[string]string{"website": site.Name}

	config := &corev1.ConfigMap{ObjectMeta: meta}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Data = map[string]string{"index.html": site.Spec.HTML}
		return controllerutil.SetControllerReference(&site, config, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}

	deployment := &appsv1.Deployment{ObjectMeta: meta}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Spec.Replicas = site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		deployment.Spec.Template.Spec.Volumes = []corev1.Volume{{
			Name: "html",
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: site.Name},
			}},
		}}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{
			Name:         "nginx",
			Image:        "nginx",
			VolumeMounts: []corev1.VolumeMount{{Name: "html", MountPath: "/usr/share/nginx/html"}},
		}}
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}

	service := &corev1.Service{ObjectMeta: meta}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Spec.Selector = labels
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		return controllerutil.SetControllerReference(&site, service, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}

	if site.Status.Ready != deployment.Status.ReadyReplicas {
		site.Status.Ready = deployment.Status.ReadyReplicas
		return ctrl.Result{}, r.Status().Update(ctx, &site)
	}
	return ctrl.Result{}, nil
}

func main() {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	version := schema.GroupVersion{Group: "pages.example.com", Version: "v1"}
	scheme.AddKnownTypes(version, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, version)

	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme, LeaderElection: true, LeaderElectionID: "website",
	})
	if err != nil {
		panic(err)
	}
	if err := ctrl.NewControllerManagedBy(manager).
		For(&Website{}).
		Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).
		Complete(&WebsiteReconciler{Client: manager.GetClient(), Scheme: scheme}); err != nil {
		panic(err)
	}
	if err := manager.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}
